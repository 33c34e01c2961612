"""What needs a mount of its own: crashes, crowds, size, request counts."""
