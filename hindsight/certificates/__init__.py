"""Proofs of bounds as files: written, checked, replayed."""
