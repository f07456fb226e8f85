"""Studies that use the packages. Only the scripts and the pages of docs/ import them."""
