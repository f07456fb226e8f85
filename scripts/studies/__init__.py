"""Applications of everything else; only the command lines import them."""
