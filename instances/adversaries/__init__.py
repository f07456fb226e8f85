"""Hard instances of the papers: traps, cascades, adversaries, reductions."""
