"""The workers of a store as one: who serves what, and what nobody serves."""
