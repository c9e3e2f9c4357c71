"""Handlers: what a task's name stands for, and the ways to run it."""
