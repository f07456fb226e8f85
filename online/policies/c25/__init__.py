"""Policies of [C25] that know intervals of output lengths, and H-SF, which knows the lengths."""
