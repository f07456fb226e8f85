"""Lower bounds from prices, and the ascent that improves them."""
