"""The scheduling problem: requests, instances, schedules with their checks, memory, files."""
