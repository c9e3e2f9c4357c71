"""Errors of a program that uses an app where it cannot be used, and of workers that must leave."""

from __future__ import annotations

from holdfast.errors.base import HoldfastError


class NoTransaction(HoldfastError):
    """A verb was to join the caller's transaction, and there is none that is open."""

    def __init__(self, problem: str, advice: str) -> None:
        super().__init__(f"{problem}: nothing was done; {advice}")

    @classmethod
    def not_begun(cls, begin: str) -> NoTransaction:
        """The driver would commit each statement by itself."""
        return cls(
            "the connection commits every statement by itself, so there is no transaction to join",
            f"begin one ({begin}), or leave the connection out",
        )

    @classmethod
    def block_ended(cls) -> NoTransaction:
        """A task or thread that was started inside the block has outlived it."""
        return cls(
            "this code was started inside a block 'app.within(connection)' that has ended since",
            "wait for it before the block ends, or let it use task.using(connection=None)",
        )


class NotOpen(HoldfastError):
    """The app is used before `async with app` or after it."""

    def __init__(
        self,
        problem: str = "the app is not open: use it inside 'async with app:', or call "
        "enqueue_sync, result_sync or a verb of app.sync, which need no event loop",
    ) -> None:
        super().__init__(problem)

    @classmethod
    def meanwhile(cls) -> NotOpen:
        return cls("the app was closed, or its event loop ended, before the call was answered")


class AlreadyOpen(HoldfastError):
    """Another store is asked for while the app has one open."""

    def __init__(self) -> None:
        super().__init__(
            "the app is open, and would go on with its old store: begin using_store or a Harness "
            "before 'async with app:' and the other Harness of this app begin, or after they have "
            "ended"
        )


class WrongLoop(HoldfastError):
    """The app is used in an event loop that it does not serve."""

    def __init__(self, problem: str, advice: str) -> None:
        super().__init__(f"{problem}: {advice}")

    @classmethod
    def of_another(cls) -> WrongLoop:
        return cls(
            "the app is open in another event loop",
            "call enqueue_sync or run_sync here, which serve every thread, or use an App that "
            "is opened in this loop",
        )

    @classmethod
    def on_its_own_thread(cls) -> WrongLoop:
        return cls(
            "a synchronous call in the thread of the app's own event loop would block that loop",
            "await enqueue, result or a verb of app.client here; call plain code that must not "
            "wait by 'await asyncio.to_thread(f)'",
        )

    @classmethod
    def for_run_worker(cls) -> WrongLoop:
        return cls(
            "run_worker starts an event loop, and this thread runs one already",
            "'async with app.worker(…) as worker: await worker.run()'",
        )

    @classmethod
    def inside_run_sync(cls) -> WrongLoop:
        return cls(
            "a synchronous call inside run_sync would wait for itself",
            "await the verbs of the client that run_sync hands over",
        )


class WorkerStalled(HoldfastError):
    """The worker cannot reach its store and ends, so that its supervisor starts it again. It does
    not end while it holds something that would be lost, such as an end that is not written."""

    def __init__(self, seconds: float, says: str) -> None:
        super().__init__(
            f"the store has not answered for {seconds:.1f} s, more than two leases: the worker "
            "leaves; check the store and the network, then start it again"
            + (f" (its last words: {says})" if says else "")
        )


class WorkerFrozen(HoldfastError):
    """A handler blocked the event loop for longer than `max_block`, so the worker was given up."""

    def __init__(self, seconds: float, limit: float) -> None:
        super().__init__(
            f"the event loop did not turn for {seconds:.1f} s, more than max_block ({limit:g} s): "
            "its jobs were handed on and the worker leaves; the event worker.loop_frozen says "
            "where it stood; make that handler a plain 'def', which runs in a thread"
        )


class SlotsLost(HoldfastError):
    """Handlers that did not stop hold so many slots that the worker ends, to be started again."""

    def __init__(self, queue: str, stuck: int, slots: int) -> None:
        super().__init__(
            f"queue {queue!r}: handlers that went on after their time hold {stuck} of {slots} "
            "slots or threads: the worker leaves, start it again; let coroutines end when they are "
            "cancelled, and run plain functions that may hang with process=True"
        )
        self.queue = queue
