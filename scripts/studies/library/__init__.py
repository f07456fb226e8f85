"""The page of the library: its sets, gaps, leaderboard, and what each version proves of it."""
