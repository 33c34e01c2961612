"""fsck: looks at everything that a volume consists of, names what is wrong, and repairs what can be repaired."""
