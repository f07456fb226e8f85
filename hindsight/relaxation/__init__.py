"""The linear relaxation of that program, by rows and by memory prices."""
