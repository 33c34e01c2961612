"""Ordinary PyTorch code that trains in a directory. It knows nothing of the file system beneath it.

``python -m tools.demo_lib train DIR`` writes the data set, trains and saves; ``... resume DIR``, in a new process,
restores each kind of checkpoint and trains on. Both add their timings to ``DIR/timings.json``.
"""
