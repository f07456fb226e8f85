"""Problems, bounds during a solve, proofs, and results."""
