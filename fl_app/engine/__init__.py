"""How an experiment runs, and on which grids."""
