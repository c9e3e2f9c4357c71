"""The contract of a store: one file for each noun, and one suite that proves it."""
