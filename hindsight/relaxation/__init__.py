"""The linear relaxation of the integer program, by rows and by memory prices."""
