"""`clew context`: what the next request of a session would hold, by where it comes from.

Without a session: what a new one in this folder begins with. Builds the request as a session does and
sends nothing; needs no key.
"""

import argparse
import asyncio
import os
import sys
from collections.abc import Callable
from pathlib import Path

import msgspec
from msgspec import Struct

from clew.agent.context.facts import attachments, tool_listing_fact
from clew.agent.context.memory import MemoryGate
from clew.agent.context.opening import Opening
from clew.agent.context.prompts import Prompts, as_before, recorded, spoke_with
from clew.agent.intake import memory_folder
from clew.agent.models import chosen_model, template
from clew.agent.options import Options
from clew.agent.tools.registry import Toolbox, outlined_tools
from clew.commands.cost import bar, table
from clew.core.catalog.added import known_models
from clew.core.catalog.models import Model
from clew.core.json_object import Json
from clew.core.ledger.breakdown import WindowPart, breakdown
from clew.core.ledger.spending import Estimator
from clew.core.messages.errors import ClewError, in_words
from clew.core.normalize.target import offered, references
from clew.parts.skills.tool import NoSkills, SkillTool
from clew.permissions.session_rules import stand
from clew.record.transcript import choose
from clew.record.transcript.load import load
from clew.system.clock import new_id, now
from clew.system.command_groups import Group
from clew.system.config.environment import freeze
from clew.system.config.settings import read_switch
from clew.system.process.spawn import Launcher

BARS = 24


class Window(Struct, frozen=True, kw_only=True):
    """The parts add up to `tokens`; `counted` of them the service counted itself."""

    session_id: str | None
    model: Model
    tokens: int
    counted: int | None
    parts: list[WindowPart]


def main(argv: list[str]) -> int:
    given = _parser().parse_args(argv)
    try:
        found = asyncio.run(look(given.session, given.model))
    except (ClewError, OSError) as error:
        sys.stderr.write(f"clew context: {in_words(error)}\n")
        return 2
    if given.json:
        sys.stdout.write(msgspec.json.encode(as_json(found)).decode() + "\n")
    else:
        sys.stdout.write("\n".join(shown(found)) + "\n")
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = Group(prog="clew context", description="What the next request would hold, in tokens.")
    parser.add_argument("session", nargs="?", metavar="SESSION", help="id, title or file")
    parser.add_argument("--model", metavar="MODEL", help="the model that would be asked")
    parser.add_argument("--json", action="store_true", help="as JSON")
    return parser


async def look(session: str | None, model_name: str | None) -> Window:
    cwd, options = Path.cwd(), Options(model=model_name)
    found = stand(os.environ, cwd)
    path = session and choose.named(found.places.config_home, str(cwd), session)
    loaded = load(path) if path else None
    catalog, _ = known_models(found.settings)
    model = chosen_model(
        options, freeze(found.environ), found.settings, catalog, spoke_with(loaded, catalog)
    )
    toolbox = Toolbox((*outlined_tools(), SkillTool(NoSkills())), found.settings)
    made = template(options, model, toolbox.definitions(), "")
    prompts = Prompts(found.places.own / "prompts")
    record = None if loaded is None else recorded(loaded)
    begins = as_before(made, options, prompts, record).standing
    if loaded is None:
        tells = bool(read_switch(found.settings, "autoMemoryEnabled"))

        def opening(launcher: Launcher) -> Opening:
            return Opening(
                launcher,
                cwd=cwd,
                environ=found.environ,
                folders=found.context.directories,
                gate=MemoryGate(lambda: found),
                nonce=new_id()[:8],
                memories=memory_folder(found.places) if tells else None,
            )

        entries = await _around(opening, model, toolbox)
    else:
        entries = loaded.messages
    counted, size = _size(entries)
    # Wherever a request keeps deferred tools back, they cost nothing.
    tools = offered(begins.tools, references(entries), takes_deferred=False)
    parts = breakdown(entries, system=begins.system, tools=tools, counted=size)
    return Window(
        session_id=path.stem if path else None,
        model=model,
        tokens=sum(part.tokens for part in parts),
        counted=counted,
        parts=parts,
    )


async def _around(
    begin: Callable[[Launcher], Opening], model: Model, toolbox: Toolbox
) -> list[Json]:
    """What a new conversation here is told."""
    launcher = Launcher()
    opening = begin(launcher)
    try:
        facts = await opening.facts(model=model.id, day=now()[:10])
        listing = tool_listing_fact((), toolbox.deferred())
        return attachments([*facts, *filter(None, [listing])])
    finally:
        await opening.aclose()
        await launcher.aclose()


def _size(entries: list[Json]) -> tuple[int | None, int | None]:
    """What the service counted with the last answer, and that with what came since."""
    for place in range(len(entries) - 1, -1, -1):
        message = entries[place].get("message")
        usage = message.get("usage") if isinstance(message, dict) else None
        if entries[place].get("isApiErrorMessage") is True or not isinstance(usage, dict):
            continue
        since = [e["message"] for e in entries[place + 1 :] if isinstance(e.get("message"), dict)]
        estimator = Estimator()
        counted = estimator.next_prompt(usage, [])
        if counted:
            return counted, estimator.next_prompt(usage, since)
    return None, None


def as_json(window: Window) -> Json:
    return {
        "sessionId": window.session_id,
        "model": window.model.id,
        "contextWindow": window.model.context_window,
        "tokens": window.tokens,
        "countedTokens": window.counted,
        "parts": window.parts,
    }


def shown(window: Window) -> list[str]:
    size = window.model.context_window
    of = f" of {size:,}" if size else ""
    how = "estimated" if window.counted is None else f"{window.counted:,} counted by the service"
    most = max((part.tokens for part in window.parts), default=0)
    rows = [
        [f"{part.kind} {part.name}".rstrip(), f"{part.tokens:,}", bar(part.tokens, most, BARS)]
        for part in window.parts
    ]
    if size:
        rows.append(["free", f"{max(0, size - window.tokens):,}", ""])
    lines = [f"{window.model.name}: {window.tokens:,}{of} tokens ({how})", ""]
    clean = ("".join(c if c.isprintable() else "\ufffd" for c in line) for line in table(rows))
    return [*lines, *clean]
