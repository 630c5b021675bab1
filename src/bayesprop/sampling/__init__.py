"""Family 2: approximate posteriors that can be drawn from; what they share is in `draws`."""
