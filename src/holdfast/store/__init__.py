"""Stores: one contract, and a folder for each backend behind it."""
