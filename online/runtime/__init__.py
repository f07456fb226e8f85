"""Worker processes, and tables as they are written."""
