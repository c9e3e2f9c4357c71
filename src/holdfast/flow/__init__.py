"""Graphs of jobs: what a flow is, how its gates count, and how a program builds and follows one."""
