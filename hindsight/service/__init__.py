"""Service levels: how many requests any scheduler can serve on time, and which tails it can reach."""
