"""Family 3: linear models, exact or nearly. What is passed around: sufficient statistics."""
