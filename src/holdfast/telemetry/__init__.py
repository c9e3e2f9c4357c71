"""What others are told of the books: metrics for Prometheus, and figures for whoever scales
workers.

Everything here is pure. `metrics.py` is the table of all metrics. `of_store.py` and `of_worker.py`
fill it, the first from what `insights/figures.py` reads, the second from a worker's health.
`text.py` writes the result down.

Times of jobs (wait, run, total) have no metric yet: nothing measures them, and a guess would be
worse.
"""
