"""The integer program of [J25] Equations (1)-(4): its arrays, its solvers, its Pyomo models."""
