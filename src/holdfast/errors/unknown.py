"""A name or an id was given that nothing has."""

from __future__ import annotations

from holdfast.errors.base import HoldfastError, shown


class UnknownTask(HoldfastError):
    """A name that no registered task has."""

    def __init__(self, name: str, known: list[str]) -> None:
        listed = ", ".join(sorted(known)) or "none"
        super().__init__(f"no task is registered as {shown(name)}; registered here: {listed}")
        self.name = name


class UnknownJob(HoldfastError):
    """An id that the store does not hold: never enqueued, or already pruned."""

    def __init__(
        self, job_id: str, why: str = "it was never enqueued here, or retention removed it"
    ) -> None:
        super().__init__(f"no job {job_id}: {why}")
        self.job_id = job_id


class UnknownSchedule(HoldfastError):
    """A name that no schedule of the store has."""

    def __init__(self, name: str) -> None:
        super().__init__(
            f"no schedule {shown(name)}: see 'holdfast schedules list'; one declared in code is "
            "there once a worker of that code has started"
        )
        self.name = name


class UnknownWorker(HoldfastError):
    """An id or a name that no registered worker has."""

    def __init__(self, worker: str, known: list[str]) -> None:
        listed = ", ".join(known) or "none"
        super().__init__(
            f"no worker has the id or the name {shown(worker)}; registered: {listed}; "
            "see 'holdfast workers list'"
        )
        self.worker = worker


class UnknownOperation(HoldfastError):
    """An id that no operation of the store has."""

    def __init__(self, operation_id: str) -> None:
        super().__init__(
            f"no operation {shown(operation_id)}: see 'holdfast operations list'; one that ended a "
            "week ago is removed"
        )
        self.operation_id = operation_id


class UnknownFailure(HoldfastError):
    """A fingerprint that no error of the store has."""

    def __init__(self, fingerprint: str) -> None:
        super().__init__(
            f"no failure {shown(fingerprint)}: see 'holdfast failures list --muted'; one that was "
            "not seen for 90 days is removed"
        )
        self.fingerprint = fingerprint


class UnknownFlow(HoldfastError):
    """An id that no flow of the store has."""

    def __init__(
        self, flow_id: str, why: str = "it was never started here, or was removed"
    ) -> None:
        super().__init__(f"there is no flow {flow_id}: {why}")
        self.flow_id = flow_id
        self._why = why

    def __reduce__(self) -> tuple[type[UnknownFlow], tuple[str, str]]:
        return type(self), (self.flow_id, self._why)
