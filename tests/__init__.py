"""The test suites of shardfs, one directory per layer."""
