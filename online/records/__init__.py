"""Records of the library verified and improved on several cores."""
