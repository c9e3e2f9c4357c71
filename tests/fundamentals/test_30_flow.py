"""A graph of jobs: each begins when what it needs has ended."""

from __future__ import annotations

from holdfast import App, FlowState

app = App("sqlite://")


@app.task(name="letters")
async def letters(word: str) -> list[str]:
    return list(word)


@app.task(name="upper")
async def upper(letter: str) -> str:
    return letter.upper()


@app.task(name="join")
async def join(letters: list[str], mark: str) -> str:
    return "".join(letters) + mark


async def test_results_go_from_job_to_job() -> None:
    async with app:
        flow = app.flow("shout")
        several = flow.add(letters, "hello")
        loud = flow.map(upper, several.output)
        flow.add(join, loud.outputs, mark="!")
        run = await flow.start()
        assert {node.state for node in await run.nodes()} == {"ready", "blocked"}
        async with app.worker():
            assert await run.result(timeout=10) == "HELLO!"
        assert (await run.get()).state is FlowState.SUCCEEDED
