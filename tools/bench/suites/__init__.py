"""The suites: importing this package registers every row."""

from tools.bench.suites import append, checkpoint, metadata, smallfile

__all__ = ["append", "checkpoint", "metadata", "smallfile"]
