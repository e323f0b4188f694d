"""/see, where lines are printed and nothing is drawn: what was shown in part, whole."""

from clew.app.session import Session
from clew.commands.outcome import Outcome, Show
from clew.commands.registry import Command
from clew.tui.telling import Telling


def see(telling: Telling) -> Command[Session]:
    async def run(_: Session, number: str) -> Outcome:
        if not number.strip():
            return Show(text="\n".join(telling.folded) or "nothing was shown in part")
        lines = telling.whole(number.strip())
        if not lines:
            return Show(text=f"nothing was shown in part as no. {number.strip()}", is_error=True)
        return Show(text="\n".join(lines))

    return Command(
        name="see",
        description="show whole what was shown in part; without a number, list it",
        hint="[NUMBER]",
        run=run,
        is_interactive=True,
    )
