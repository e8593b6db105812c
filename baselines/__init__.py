"""What the private forests must beat, and the two ends of the scale."""
