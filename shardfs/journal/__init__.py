"""The journal: every metadata operation as one record, made durable in groups, replayed after a crash."""
