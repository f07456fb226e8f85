"""Modules that run inside a serving engine: let a policy control it, and record its requests."""
