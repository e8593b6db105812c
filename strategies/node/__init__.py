"""A node's half of a run: messages answered from its own rows, as far as its owner allows."""
