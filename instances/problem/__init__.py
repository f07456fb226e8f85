"""The problem: requests, instances, schedules and their checker, memory, files."""
