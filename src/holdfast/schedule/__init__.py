"""Schedules: rules for plan times, and the ledger that accounts for every plan.

The way of one plan, forward only:

| file | what it does |
|---|---|
| `decorator` | `@app.schedule(...)` puts a definition on a task |
| `definition` | checks what the user wrote and makes a `Definition` |
| `model` | the words: `Rule`, `Definition`, `Schedule`, `Plan`, `Decision`, `LedgerEntry` |
| `declarer` | declares the definitions of this program to the store |
| `evaluator` | the loop: leads, rereads schedules, starts the evaluations that are due |
| `agenda` | remembers when each schedule is to be evaluated next |
| `evaluation` | evaluates one schedule: scopes, cursors, due plans, overlap, ledger |
| `providers` | asks scope providers and planners, through `bounded_calls` |
| `catch_up` | which plans are due, and which of them fire (pure) |
| `overlap` | what becomes of a plan whose predecessor has not ended |
| `plan_job` | makes the job of a plan that fires |
| `ledger` | writes the rows, each in one transaction with its job |
| `retrying` | tries plans again that failed to start or waited |

Plan times are computed by `rule`, with `cron` for expressions and `zone` for time zones. `status`,
`preview` and `backfill` serve people who ask about a schedule. `service` runs the loops.
"""
