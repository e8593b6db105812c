"""The server's half of a run: any method as a Flower strategy."""
