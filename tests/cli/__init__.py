"""The two programs, run as a user runs them."""
