"""What a computation knows on its way and returns at its end."""
