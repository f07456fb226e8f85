"""The integer program of [J25] Equations (1)-(4), and its solvers HiGHS and CBC."""
