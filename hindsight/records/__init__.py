"""Records of the library: verification without a solver, and improvement."""
