"""Certificates: proofs of bounds as files, their writing, checking and replay."""
