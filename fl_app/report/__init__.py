"""One page that answers the question: which method, at which epsilon, for my data."""
