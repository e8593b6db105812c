"""How methods run: the Flower app, the simulation session, data sets, results and commands."""
