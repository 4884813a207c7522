"""Environments: how one is defined, locked, built, and proved to be what was asked for."""
