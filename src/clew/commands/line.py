"""Process a line that was typed or piped in: a slash command, a shell line or a prompt."""

from clew.agent.deps import Emit
from clew.agent.intake import Raw, Taken, Turn
from clew.core.input import Outcome, TypedCommand
from clew.session.session import Session


async def take_line(session: Session, raw: Raw, emit: Emit) -> Taken:
    """Handle a line: return a turn for `conversation.submit`, or the outcome of its command."""

    async def run_command(typed: TypedCommand) -> Outcome | None:
        from clew.commands.slash.table import run  # imported only when a command is typed

        return await run(session, typed, raw)

    session.parts.skills.take_back()
    outcome = await session.intake.take(raw, emit, run_command)
    if isinstance(outcome, Turn):
        return await session.asked(outcome.prompt, outcome.context)
    return outcome
