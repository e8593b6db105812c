"""What a person at a terminal meets: log lines and bars, Ctrl-C, and no notices of frameworks."""
