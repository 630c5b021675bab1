"""Mathematics only: imports jax and numpy, nothing of ours."""

LOG_2PI = 1.8378770664093453
"""Log of 2 pi."""
