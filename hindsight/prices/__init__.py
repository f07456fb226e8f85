"""Lower bounds that prices prove, and ascents that improve the prices."""
