"""Past one machine: posteriors that multiply, whatever their method."""
