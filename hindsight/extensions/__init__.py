"""Bounds and cuts of one's own: registered by name, called, held to their form."""
