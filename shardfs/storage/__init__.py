"""The only place that touches backing files."""
