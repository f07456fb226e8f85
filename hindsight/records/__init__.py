"""Records of the library: verified without a solver, improved with one, submitted by anybody."""
