"""Programs that people run on a mount, unmodified."""
