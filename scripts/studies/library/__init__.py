"""The page of the library: its sets, gaps and leaderboard."""
