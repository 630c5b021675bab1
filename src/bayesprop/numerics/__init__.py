"""Mathematics only: imports jax and numpy, nothing of ours."""
