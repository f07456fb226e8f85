"""The library: sets of named instances, each checked by its digest, and bounds on their optima."""
