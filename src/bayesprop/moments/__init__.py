"""Family 1: methods that pass the mean and variance of every activation."""
