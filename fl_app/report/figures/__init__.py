"""Figures of many runs, in one style: colour-blind safe, the same colour for a method in every figure."""
