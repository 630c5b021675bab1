"""Bayesian neural networks with calibrated predictions, fast and without tuning.

Public names are loaded on first use, so that ``import bayesprop`` stays instant; `__init__.pyi`
lists them.
"""

import lazy_loader

__version__ = "0.1.0"

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
