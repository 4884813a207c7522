"""Figures of the search on simulated problems: `python -m tests.bench --help`. No timing is asserted here."""
