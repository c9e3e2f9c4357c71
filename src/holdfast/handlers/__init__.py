"""Handlers: the functions behind task names, and the ways to run them.

`registry` maps the name of a task to its function; nothing in a payload is ever imported. A
handler runs in one of three modes. A coroutine runs on the worker's event loop. A plain function
runs in one of the `threads`. A function of a task with `process=True` runs in one of the
`processes`: `child` is the other side, and `wire` is what both say to each other.

In every mode a handler has the same conversation with its worker (`job/requests.py`): it sends
requests through its `Context`, and its last word is the end of its attempt. `exceptions` says
which end an exception means, and `tracebacks` formats it cheaply.

**What is guaranteed.** Nothing that a handler raises ends its worker. A coroutine can be cancelled
where it waits. A thread cannot be stopped; its slot waits for it. A child process can be killed,
and is dead before its attempt ends.

**When a part fails.** A child that dies ends its attempt as a lost worker would, and the pool
starts another. A handler that forks gets a child that cannot act as a second worker (`forks`).
"""
