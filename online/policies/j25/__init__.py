"""[J25]'s policies: MC-SF, first come first served, alpha-protection."""
