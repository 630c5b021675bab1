"""What is predicted: means, variances, densities and quantiles of numbers; probabilities."""
