"""Holdfast: a durable job queue, cron scheduler and flow engine."""
