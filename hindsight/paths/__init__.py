"""Path relaxation: a graph of sets of running requests, priced and pruned from both ends."""
