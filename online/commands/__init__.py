"""The subcommands of ``llm-hindsight``, one file each: arguments and printing, no arithmetic."""
