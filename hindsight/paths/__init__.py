"""Path relaxation: graphs whose paths contain all schedules within a limit on total latency."""
