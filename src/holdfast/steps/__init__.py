"""Steps of a handler: calls that are recorded, sleeps, and waits for signals.

`Context` makes a `SignalRunner` when a handler first asks for one. `calling.py` has what a handler
writes (`ctx.step`, `ctx.step_sync`), `running.py` runs a step or a sleep, `signals.py` waits for a
signal, `results.py` knows how the result of a function is written. The worker's side is
`worker/journal.py`.
"""
