"""Reading files as people's programs write them, cutting recordings into windows, and checking both."""
