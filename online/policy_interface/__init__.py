"""What a policy is: what it sees, what it answers, and what it may build on."""
