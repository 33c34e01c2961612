"""What a POSIX program may expect, checked on a plain directory and on the mount."""
