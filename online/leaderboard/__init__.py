"""Every policy on every instance of the library, beside what is known of its optimum."""
