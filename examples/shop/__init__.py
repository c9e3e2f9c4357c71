"""A shop whose orders are shipped and announced by jobs."""
