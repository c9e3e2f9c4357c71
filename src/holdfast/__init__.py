"""Durable jobs, schedules and flows for Python."""
