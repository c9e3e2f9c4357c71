"""The read side of the command line and the console: why a job waits, and what is wrong.

- `explain`: every reason why one job is not running
- `life`: everything that happened to one job
- `overview`: everything of the first page in one answer
- `workforce`: who works for which queues; `worker_checks`: what is wrong with that
- `doctor`: the examination of a whole store; `checks`, `schedule_checks`: its checks; `diagnosis`:
  what a check says
- `actions`: the words for a remedy, which the command line shows as a command
- `redaction`: what must not be shown
"""
