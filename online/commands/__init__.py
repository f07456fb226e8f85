"""The subcommands of ``llm-hindsight``, one file each: they read arguments and print answers."""
