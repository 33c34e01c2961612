"""What people run from a checkout: shell scripts, and the benchmark as ``python -m tools.bench``."""
