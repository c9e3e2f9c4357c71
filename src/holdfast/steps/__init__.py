"""Steps of a handler: calls that are recorded, and sleeps.

`Context` makes a `StepRunner` when a handler first asks for one. `calling.py` has what a handler
writes (`ctx.step`, `ctx.step_sync`), `runner.py` runs a step or a sleep, `results.py` knows how the
result of a function is written. The worker's side is `worker/journal.py`.
"""
