"""The client: every verb of an opened store, for programs, the command line and HTTP.

The verbs on jobs are methods of `Client`. The verbs on queues, tasks, schedules, workers, the
audit, keys, operations and failures are methods of `client.queues`, `client.tasks`,
`client.schedules`, `client.workers`, `client.audit`, `client.keys`, `client.operations` and
`client.failures`, those on flows, signals and limits of `client.flows`, `client.signals` and
`client.limits`. The verbs that change jobs are in `operating.py`.
"""

from __future__ import annotations

from collections.abc import Coroutine, Iterable, Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any, Unpack

import msgspec

from holdfast.client.acting import LONGEST_REASON, Acts
from holdfast.client.audit import AuditVerbs
from holdfast.client.editing import Editor
from holdfast.client.inserting import Inserter
from holdfast.client.joining import Ambient
from holdfast.client.keys import KeyVerbs
from holdfast.client.operating import OperatorVerbs
from holdfast.client.queues import QueueVerbs
from holdfast.client.results import ResultWaiter, raise_unless_succeeded
from holdfast.client.searching import count_unsearched, require_searchable
from holdfast.client.selection import (
    PAGE_LIMIT,
    FilterWords,
    job_filter,
)
from holdfast.client.tasks import TaskVerbs
from holdfast.client.workers import WorkerVerbs
from holdfast.enqueue.options import Seconds
from holdfast.errors import UnknownJob
from holdfast.events import Events
from holdfast.insights.actions import Noun, Verb
from holdfast.job import checks
from holdfast.job.checks import check_job_id, known_job_id
from holdfast.job.json_text import read_json
from holdfast.job.record import Inserted, Job, NewJob
from holdfast.job.sealed import require_open, shown_job
from holdfast.job.state import JobState
from holdfast.job.step import Step
from holdfast.job.ties import Tie
from holdfast.job.vote import Vote
from holdfast.store.contract.joining import JobsWithin
from holdfast.store.contract.reading import WalkBound
from holdfast.store.contract.records import Page
from holdfast.store.contract.store import Store

if TYPE_CHECKING:
    from holdfast.client.failures import FailureVerbs
    from holdfast.client.flows import FlowVerbs
    from holdfast.client.limits import LimitVerbs
    from holdfast.client.operations import OperationVerbs
    from holdfast.client.schedules import ScheduleVerbs
    from holdfast.client.signals import SignalVerbs
    from holdfast.client.streams import StreamVerbs
    from holdfast.client.telemetry import TelemetryVerbs
    from holdfast.client.voting import Voting
    from holdfast.encryption.keyring import Keyring
    from holdfast.handlers.registry import Handler
    from holdfast.insights.explain import Explanation
    from holdfast.insights.life import Life
    from holdfast.insights.redaction import Redaction
    from holdfast.schedule.providers import Providers


class Client(OperatorVerbs):
    """The verbs of one opened store: those on jobs here, the others under their noun."""

    def __init__(
        self,
        store: Store,
        providers: Providers | None = None,
        events: Events | None = None,
        ambient: Ambient | None = None,
        tasks: Mapping[str, Handler] | None = None,
        max_payload: int | None = None,
        inserter: Inserter | None = None,
        signing_keys: Keyring | None = None,
    ) -> None:
        """`tasks` are those that this program knows, for checking arguments."""
        editor = Editor(tasks or {}, max_payload)
        super().__init__(store, Acts(events), ambient or Ambient(), editor)
        self.queues = QueueVerbs(store, self._acts)
        self.tasks = TaskVerbs(store, self._acts, tasks)
        self.workers = WorkerVerbs(store, self._acts)
        self.audit = AuditVerbs(store)
        self.keys = KeyVerbs(store)
        self._tasks = tasks
        self._providers = providers
        self._max_payload = max_payload
        self._signing_keys = signing_keys
        self._inserter = inserter or Inserter(store.jobs)
        self._results = ResultWaiter(store.jobs)

    @cached_property
    def schedules(self) -> ScheduleVerbs:
        """The verbs on schedules. They are imported with their first use, because they know how to
        read cron expressions and time zones, and most programs never ask them."""
        from holdfast.client.schedules import ScheduleVerbs

        return ScheduleVerbs(self._store, self._providers, self._acts)

    @cached_property
    def shown(self) -> Redaction:
        """How jobs may be shown to people: `await client.shown.job(await client.get(job_id))`.
        What a client answers has every value, because its caller is trusted."""
        from holdfast.insights.redaction import Redaction

        return Redaction(self._store, self._tasks)

    @cached_property
    def flows(self) -> FlowVerbs:
        """The verbs on flows, imported with their first use."""
        from holdfast.client.flows import FlowVerbs

        return FlowVerbs(self._store, self._acts)

    @cached_property
    def limits(self) -> LimitVerbs:
        """The verbs on limits, imported with their first use."""
        from holdfast.client.limits import LimitVerbs

        return LimitVerbs(self._store, self._acts)

    @cached_property
    def signals(self) -> SignalVerbs:
        """The verbs on signals, imported with their first use."""
        from holdfast.client.signals import SignalVerbs

        return SignalVerbs(self._store, self._acts, self._max_payload)

    @cached_property
    def streams(self) -> StreamVerbs:
        """The verbs on streams, imported with their first use."""
        from holdfast.client.streams import StreamVerbs

        return StreamVerbs(self._store)

    @cached_property
    def operations(self) -> OperationVerbs:
        """The verbs on operations. They are imported with their first use, because they can also
        work on an operation, which most programs leave to workers."""
        from holdfast.client.operations import OperationVerbs

        return OperationVerbs(self._store, self._acts)

    @cached_property
    def failures(self) -> FailureVerbs:
        """The verbs on failures. They are imported with their first use, as those on operations."""
        from holdfast.client.failures import FailureVerbs

        return FailureVerbs(self._store, self._acts, self.operations)

    @cached_property
    def telemetry(self) -> TelemetryVerbs:
        """What the store tells others; imported with its first use, as few programs tell it."""
        from holdfast.client.telemetry import TelemetryVerbs

        return TelemetryVerbs(self._store)

    async def aclose(self) -> None:
        await self._inserter.aclose()
        if "flows" in vars(self):
            await self.flows.aclose()
        if "streams" in vars(self):
            await self.streams.aclose()
        await self._results.aclose()

    # Enqueue -----------------------------------------------------------------------------

    def insert(self, job: NewJob) -> Coroutine[Any, Any, Inserted]:
        """Insert one job; concurrent calls share a round trip."""
        # Passed on: each enqueue would pay for a second coroutine.
        return self._inserter.insert(job)

    async def insert_many(self, jobs: Sequence[NewJob]) -> list[Inserted]:
        """Insert all of them; raises `PartlyInserted` if the store took some and refused others."""
        return await self._inserter.insert_many(jobs)

    # Reading -----------------------------------------------------------------------------

    async def page(
        self,
        *,
        limit: int = 50,
        cursor: str | None = None,
        look: int | None = None,
        **which: Unpack[FilterWords],
    ) -> Page:
        """Jobs that match, newest first. `cursor` is `next_cursor` of the page before.

        A page looks at a bounded number of jobs: at `look` or fewer, or at as many as its store
        reads in some tens of milliseconds. If few jobs match, it may be incomplete
        (`page.complete`), even empty; the others come after its cursor. All are found when
        `next_cursor` is None.
        """
        from holdfast.insights.causes import jobs_with_reasons  # as `get` does

        checks.count("limit", limit, most=PAGE_LIMIT)
        bound = WalkBound() if look is None else WalkBound(checks.count("look", look))
        after = None if cursor is None else check_job_id(cursor)
        meant = job_filter(**which)
        page = await self._jobs.page(meant, limit, after, bound)
        unsearched = page.unsearched or await count_unsearched(self._jobs, meant, after)
        jobs = tuple(map(shown_job, await jobs_with_reasons(self._jobs, page.jobs)))
        return msgspec.structs.replace(page, jobs=jobs, unsearched=unsearched)

    async def count(self, **which: Unpack[FilterWords]) -> dict[JobState, int]:
        """How many jobs match, by state. Raises `Refused` if some that may match are encrypted
        with keys that this program does not have."""
        meant = job_filter(**which)
        await require_searchable(self._jobs, meant)
        return await self._jobs.count(meant)

    async def result(self, job_id: str, timeout: Seconds | None = None) -> Any:
        """The result as a JSON value, once the job has succeeded; a typed error otherwise. Only
        the task knows the type of its result: `task.job(job_id).result()` answers with that."""
        text = await self.result_json(job_id, timeout)
        return None if text is None else read_json("result", text)

    async def result_json(self, job_id: str, timeout: Seconds | None = None) -> str | None:
        """The result as JSON text, once the job has succeeded; a typed error otherwise."""
        seconds = None if timeout is None else checks.wait("timeout", timeout)
        outcome = await self._results.wait(known_job_id(job_id), seconds)
        raise_unless_succeeded(outcome)
        if outcome.result is not None:
            require_open(outcome.result)
        return outcome.result

    async def explain(self, job_id: str) -> Explanation:
        """Every reason why the job is not running now, and who can change it."""
        from holdfast.insights.explain import explain

        return await explain(self._store, await self.get(job_id))

    async def reveal(self, job_id: str, *, reason: str, by: str | None = None) -> Job:
        """The same as `get`, for a person who needs to see what is hidden. `by` says for whom, and
        the audit keeps the reason."""
        why = {"reason": checks.text("reason", reason, LONGEST_REASON)}
        meant = known_job_id(job_id)
        async with self._acts.act(self._store, by, Noun.JOBS, Verb.REVEAL, meant, value=why):
            return await self.get(meant)

    async def steps(self, job_id: str) -> list[Step]:
        """The steps that attempts of the job have recorded, in their order."""
        job = await self.get(job_id)
        if not job.ties & Tie.STEPS:
            return []
        return (await self._store.steps.load([job.id])).get(job.id, [])

    async def answer(
        self, token: str, answer: bool | Mapping[str, object], *, by: str | None = None
    ) -> Vote:
        """Give the vote of the person who has this token: True, False, or a mapping with `approve`
        and a `note`. Answers with the vote, also if the same was answered before.

        Raises `AnswerRefused` if the vote does not count, and does not say why: operators read that
        in the log and the audit. `by` says who answers in the place of the person."""
        return await self._voting.answer(token, answer, by)

    async def tokens(self, job_id: str, wait: str, people: Iterable[str]) -> dict[str, str]:
        """The tokens of people whom a job asks, by person. Whoever has the `signing_keys` can make
        one for anybody: give each only to that person."""
        return self._voting.tokens(known_job_id(job_id), wait, people)

    @cached_property
    def _voting(self) -> Voting:
        from holdfast.client.voting import Voting

        return Voting(self._store, self._acts, self._signing_keys)

    async def life(self, job_id: str) -> Life:
        """Everything that happened to the job, from its enqueue to now or to its end."""
        from holdfast.insights.life import acts_on_flow, life_of

        known = known_job_id(job_id)

        async def read(jobs: JobsWithin) -> Life:
            found = await jobs.get([known])
            if not found:
                raise UnknownJob(job_id)
            return life_of(shown_job(found[0]), await jobs.life([known]))

        life = await self._on_jobs(read)
        of_flow = await acts_on_flow(self._store, life.job)
        return msgspec.structs.replace(life, of_flow=of_flow) if of_flow else life
