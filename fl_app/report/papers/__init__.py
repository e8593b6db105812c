"""What belongs to one source: what it published, and the tables and figures that it shows."""
