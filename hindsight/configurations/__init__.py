"""Prices of what runs together: state tables, configurations and price ascents."""
