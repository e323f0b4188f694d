"""`/loop` and `/goal`: work that goes on by itself, with an end and a cost that can be seen."""

import re
from datetime import timedelta

from clew.app.goals import MOST_CHECKS
from clew.app.session import Session
from clew.commands.outcome import Ask, Outcome, Show
from clew.messages.counts import count_of
from clew.messages.errors import UserError
from clew.schedules import cron
from clew.schedules.board import Wish, line
from clew.schedules.spans import seconds
from clew.schedules.tool import Now
from clew.skills.expand import split

USUAL_EVERY_S = 600
NONE = "nothing is scheduled"
# A number and letters: nobody begins a prompt so, and many write a span in a way of their own.
LIKE_A_SPAN = re.compile(r"[0-9][0-9.,]*[A-Za-z]+[0-9A-Za-z]*")
LOOP = '/loop [5m | "CRON"] [--times N] [--for 2h] [--budget USD] PROMPT, /loop stop [ID]'


async def loop(session: Session, arguments: str) -> Outcome:
    board = session.board
    running = board.running()
    if not arguments:
        lines = [line(one, board.spent_since(one)) for one in running]
        return Show(text="\n".join(lines) or f"{NONE}; {LOOP}")
    words = split(arguments)
    if words[0] == "stop":
        meant = [one for one in running if not words[1:] or one.id in words[1:]]
        for one in meant:
            await board.stop(one)
        there = ", ".join(one.id for one in running)
        none = f"there is no schedule {' '.join(words[1:])}; there are {there}" if there else NONE
        return Show(text=f"stopped: {', '.join(one.id for one in meant)}" if meant else none)
    try:
        one = board.add(wish(arguments))
    except (UserError, ValueError) as error:
        return Show(text=f"/loop: {error}", is_error=True)
    return Show(
        text=f"{line(one, 0.0)}\nEach time costs a turn. /loop shows what it cost, /loop stop {one.id} "
        "ends it, and it ends with this session."
    )


def wish(arguments: str) -> Wish:
    """What a line of /loop asks for. Raises ValueError."""
    rest, every, expression = arguments, USUAL_EVERY_S, ""
    if rest.startswith('"') and '"' in rest[1:]:
        expression, _, rest = rest[1:].partition('"')
    else:
        first, _, behind = rest.partition(" ")
        found = seconds(first)
        if found is not None:
            every, rest = found, behind
        elif LIKE_A_SPAN.fullmatch(first):
            raise ValueError(
                f"{first}: no span of time; there are 90s, 5m, 2h, 1d and 1h30m, and a prompt that begins so "
                "stands behind one of them"
            )
    options: dict[str, str] = {}
    rest = rest.lstrip()
    while rest.startswith("--"):
        name, _, rest = rest.partition(" ")
        if name not in ("--times", "--for", "--budget"):
            raise ValueError(f"{name}: there are --times, --for and --budget")
        options[name], _, rest = rest.lstrip().partition(" ")
        rest = rest.lstrip()
    if not rest.strip():
        raise ValueError(f"what is to be done? {LOOP}")
    return Wish(
        prompt=rest.strip(),
        cron=cron.read(expression) if expression else None,
        expression=expression,
        every_s=0 if expression else every,
        at_once=not expression,
        times=whole(options.get("--times")),
        until=None if "--for" not in options else Now()() + timedelta(seconds=of(options["--for"])),
        budget_usd=amount(options.get("--budget")),
    )


def whole(text: str | None) -> int | None:
    if text is not None and not (text.isascii() and text.isdigit() and 0 < int(text) < 10_000):
        raise ValueError(f"--times {text}: expected a number")
    return None if text is None else int(text)


def of(text: str) -> int:
    found = seconds(text)
    if not found:
        raise ValueError(f"--for {text}: expected a span, as 2h")
    return found


def amount(text: str | None) -> float | None:
    try:
        found = None if text is None else float(text.removeprefix("$"))
    except ValueError:
        found = -1.0
    if found is not None and not 0 < found < 10_000:
        raise ValueError(f"--budget {text}: expected dollars, as 1.50")
    return found


async def goal(session: Session, text: str) -> Outcome:
    it = session.goal
    if not text:
        if not it.text:
            return Show(text="no goal; /goal WHAT MUST BE TRUE sets one")
        last = f"\nlast check: {it.last}" if it.last else ""
        return Show(
            text=f"{it.text}\n{count_of(it.checks, 'check')}, ${it.cost:.4f} spent since it was set{last}"
        )
    if text in ("clear", "stop", "off"):
        was = it.text
        it.clear()
        return Show(text=f"no goal any more; it was: {was}" if was else "there was no goal")
    it.set(text)
    return Ask(
        text=f"Work until this goal is met, and show at the end of each turn how it can be seen: {text}",
        said=f"the goal is: {text}. After each turn the model for small work judges whether it is met, at most "
        f"{MOST_CHECKS} times; until then the model works on. Escape stops a turn, /goal clear ends the goal",
    )
