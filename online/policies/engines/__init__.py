"""The schedulers of serving engines: vLLM and Sarathi-Serve, and the orders of their queues."""
