"""The read side of the command line and the console: why a job waits, what is wrong."""
