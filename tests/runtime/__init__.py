"""The processes of a mount: how they start, watch each other, and end."""
