"""The command line: `holdfast COMMAND`.

- `main`, `program`: from the shell to a command; `program` lists all commands and their groups
- `command`: what every command shares; `target`: its app and store; `output`: how answers look
- `filters`: options of several commands, and times; `asking`: questions and progress bars
- `words`, `advice`: what verbs are called here, and remedies as commands to type
- `jobs` and `jobs_verbs`, `queues`, `schedules` and `schedules_verbs`, `name_verbs`, `workers`: one
  module for what is read about a noun, one for what changes it; `*_view` draws for people
- `worker`, with `processes`, `reload` and `logs`: runs jobs
- `enqueue`, `migrate`, `doctor`, `demo`: one command each
"""
