"""A Flower app that trains a private forest on tables of its own."""
