"""A call as JSON, and back."""
