"""Scripts that run inside a built environment, by path: standard library and what is installed there only."""
