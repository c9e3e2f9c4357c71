"""A WSGI app that enqueues without an event loop, as a Flask or Django view would.

POST /mails/ADDRESS   → 202 and the id of a job
GET  /mails           → how many jobs there are, by state
GET  /mails/ID        → the state of a job, and its result once there is one
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import TYPE_CHECKING
from wsgiref.util import setup_testing_defaults

from holdfast import App, UnknownJob

if TYPE_CHECKING:
    from _typeshed.wsgi import StartResponse, WSGIEnvironment

jobs = App("sqlite:///web_sync.db")


@jobs.task(queue="mail", timeout=30)
async def send_mail(to: str) -> str:
    return f"sent to {to}"


def web(environ: WSGIEnvironment, start_response: StartResponse) -> Iterable[bytes]:
    status, answer = route(environ["REQUEST_METHOD"], environ["PATH_INFO"])
    start_response(status, [("Content-Type", "application/json")])
    return [json.dumps(answer).encode()]


def route(method: str, path: str) -> tuple[str, dict[str, object]]:
    match method, path.strip("/").split("/"):
        case "POST", ["mails", to]:
            return "202 Accepted", {"job": send_mail.enqueue_sync(to).id}
        case "GET", ["mails"]:
            counts = jobs.sync.count(queue="mail")
            return "200 OK", {str(state): number for state, number in counts.items()}
        case "GET", ["mails", job_id]:
            return show(job_id)
        case _:
            return "404 Not Found", {"error": "no such page"}


def show(job_id: str) -> tuple[str, dict[str, object]]:
    try:
        job = send_mail.job(job_id).get_sync()
    except UnknownJob as error:
        return "404 Not Found", {"error": str(error)}
    return "200 OK", {"state": job.state, "result": job.result}


def main() -> None:
    """What a server would do, and then what a worker would do."""
    statuses, [first, _] = zip(
        *(request("POST", f"/mails/{name}@example.org") for name in ("ann", "bob")), strict=True
    )
    print(*statuses)
    print(*request("GET", "/mails"))
    print(*request("GET", "/nowhere"))
    jobs.run_worker({"mail": 10}, burst=True)  # holdfast worker web_sync:jobs --queues mail:10
    print(*request("GET", "/mails"))
    print(*request("GET", f"/mails/{json.loads(first)['job']}"))
    print(request("GET", "/mails/nope")[0])


def request(method: str, path: str) -> tuple[str, str]:
    environ: WSGIEnvironment = {"REQUEST_METHOD": method, "PATH_INFO": path}
    setup_testing_defaults(environ)
    statuses: list[str] = []

    def start_response(status: str, *_: object) -> object:
        statuses.append(status)
        return lambda _: None

    body = b"".join(web(environ, start_response))  # type: ignore[arg-type]
    return statuses[0], body.decode()


if __name__ == "__main__":
    main()
