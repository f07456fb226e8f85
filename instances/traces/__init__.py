"""Traces and logs of real requests, read row by row; windows of them as instances."""
