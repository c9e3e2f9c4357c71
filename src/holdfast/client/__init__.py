"""What a program may ask of a store and change in it, outside of a worker.

- `client`: `Client`, with the verbs on jobs; `queues`, `schedules`, `workers`: the other nouns
- `verbs`: the table of operators' verbs; `acting`: who did it, reported as an event
- `selection`: which jobs are meant, and a verb applied to all of them
- `inserting`: from a job in memory to a job in the store; `results`: waiting for results
- `portal`: who serves calls from programs without an event loop; `sync`: the verbs for them
"""
