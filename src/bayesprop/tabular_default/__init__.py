"""The ensemble behind `BayesianRegressor`: networks of Gaussian weights that learn the noise."""
