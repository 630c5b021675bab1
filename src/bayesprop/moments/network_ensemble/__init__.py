"""The ensemble behind `BayesianMLPRegressor`: networks of Gaussian weights that learn the noise."""
