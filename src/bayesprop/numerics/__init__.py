"""Mathematics only: imports jax and numpy, nothing of ours; `kernel_*` numba, and no jax."""
