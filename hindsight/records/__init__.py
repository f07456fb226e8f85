"""Records of the library: verification without a solver, improvement, and submission."""
