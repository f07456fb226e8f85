"""Certificates: files that prove bounds. They are written here, and checked without a solver."""
