"""The file system without a mount."""
