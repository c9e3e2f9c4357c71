"""`holdfast tasks paused|pause|resume`."""

from __future__ import annotations

from holdfast.cli.name_verbs import add_name_commands
from holdfast.cli.program import tasks_group
from holdfast.cli.target import CommandSession
from holdfast.insights.actions import Noun


@tasks_group.command("paused")
async def paused_tasks(session: CommandSession) -> None:
    """List the tasks whose jobs nobody claims until they are resumed."""
    async with session.client() as client:
        tasks = await client.tasks.paused()
    session.answer({"paused": tasks}, lambda: tasks or ["no task is paused"])


add_name_commands(tasks_group, Noun.TASKS)
