"""[W25]'s policies: Sorted-F with its batch builders, and orders from the relaxation."""
