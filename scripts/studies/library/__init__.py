"""The page of the library of instances: its sets, gaps, and ratios of policies."""
