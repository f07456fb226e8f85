"""Places in the package that implement the papers' statements, read from its citations."""
