"""The adapter to the kernel, the mount table, mount options and mount points."""
