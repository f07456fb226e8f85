"""Records (best known bounds of library instances): verification without a solver, improvement."""
