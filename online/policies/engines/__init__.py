"""The schedulers of serving engines: vLLM and Sarathi-Serve."""
