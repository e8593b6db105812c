"""The federated methods, one folder each, and the contract that they share."""
