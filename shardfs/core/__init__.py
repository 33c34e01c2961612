"""The file system itself: one method per operation, with no knowledge of FUSE or LMDB."""
