"""A call as JSON, and back: what a task's arguments and results become in the store.

- `signature`: one task's arguments and result, both ways
- `parameters`: a function's parameters, with annotations resolved to types
- `calls`: what an enqueuing program needs of a codec
- `types`: classes and annotations that msgspec does not handle by itself
- `messages`: what is said about values that do not fit
"""
