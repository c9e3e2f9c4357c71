"""Schedules: when plans are due and what is decided about them (pure), one look at one of them."""
