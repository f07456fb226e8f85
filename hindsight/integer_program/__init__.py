"""The integer program of [J25] Equations (1)-(4), and HiGHS and CBC, which solve it."""
