"""The integer program of [J25] (1)-(4), and HiGHS and CBC, which solve it."""
