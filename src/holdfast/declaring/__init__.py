"""Declaring: how a function becomes a task, and how tasks get into an app.

A `Tasks` (`tasks`) is a set of tasks, schedules and providers. An `App` is such a set with a store.
`sets` says what a set holds and how one includes another; `schedules` and `commands` are the parts
of a set that declare those. `decorator` is what `@app.task` applies to a function; the answer is a
`DeclaredTask` (`declared`), whose default name is made by `names`. A `NamedTask` (`named`) has a
name and no function. `imports` are the modules that a worker loads, so that what they declare is
known. `within_handlers` is what a handler declares while it runs.
"""
