"""What others are told of the books: metrics for Prometheus, and figures for whoever scales
workers.

Everything here is pure. `metrics.py` is the table of all metrics. `of_store.py` and `of_worker.py`
fill it, the first from what `insights/figures.py` reads, the second from a worker's health.
`text.py` writes the result down.
`sketch.py` counts times so that any two counts can be added.
"""
