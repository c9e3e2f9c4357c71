"""The bare driver of each store: what it can do with nobody in between."""
