"""What bounds, cuts and strategies must hold, tried on instances small enough to enumerate."""
