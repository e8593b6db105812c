"""What runs leave: their folders, read back as values, and tables of many of them."""
