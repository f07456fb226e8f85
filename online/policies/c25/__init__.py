"""[C25]'s policies, for outputs known by an interval, and H-SF, which knows them."""
