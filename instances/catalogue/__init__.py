"""The library: named instances in sets, each checked by its digest, and what is known of them."""
