"""Lower bounds in exact arithmetic, by volumes and by memory prices; no solver."""
