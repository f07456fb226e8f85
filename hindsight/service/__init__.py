"""Service levels: the most requests on time, and the shortest tails, of every scheduler."""
