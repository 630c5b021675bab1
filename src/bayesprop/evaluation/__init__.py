"""How good predictions are, and what to decide by them."""
