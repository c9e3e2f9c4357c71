"""The vocabulary of jobs, and the pure decisions about them. It imports nothing but errors."""
