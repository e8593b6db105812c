"""What an attacker gets from a finished run: its model and rows, shadow runs of its method, and what attacks found."""
