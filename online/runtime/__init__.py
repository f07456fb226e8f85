"""What runs and writes results: worker processes, tables, versions."""
