"""`clew context`: show the tokens in a session's next request, grouped by source.

If no session is given, show what a new session in this folder starts with. The request is built as
in a session, but nothing is sent, and no API key is needed.
"""

import argparse
import asyncio
import os
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

import msgspec
from msgspec import Struct

from clew.agent.context.facts import make_attachments, make_tool_listing_fact
from clew.agent.context.memory import MemoryGate
from clew.agent.context.opening import Opening
from clew.agent.context.prompts import Prompts, as_before, find_last_model, read_recorded_opening
from clew.agent.intake import find_memory_folder
from clew.agent.models import choose_model, make_template
from clew.agent.options import Options
from clew.agent.tools.registry import Toolbox, outlined_tools
from clew.core.catalog.added import load_models
from clew.core.catalog.models import Model
from clew.core.json_object import Json
from clew.core.ledger.breakdown import WindowPart, break_down
from clew.core.ledger.spending import Estimator
from clew.core.messages.errors import ClewError, describe_error
from clew.core.messages.text import format_tokens, replace_unprintable
from clew.core.normalize.target import find_references, select_definitions
from clew.core.page import PageGroup, PageRow, ReportPage, format_page, format_share
from clew.parts.skills.tool import NoSkills, SkillTool
from clew.permissions.session_rules import load_current_rules
from clew.record.transcript import choose
from clew.record.transcript.load import load
from clew.system.clock import get_timestamp, make_id
from clew.system.command_groups import Group
from clew.system.config.environment import freeze
from clew.system.config.settings import read_switch
from clew.system.process.spawn import Launcher


class Window(Struct, frozen=True, kw_only=True):
    """The content of the context window.

    `tokens` is the sum of the parts; `counted` of them were counted by the service, the rest is
    estimated.
    """

    session_id: str | None
    model: Model
    tokens: int
    counted: int | None
    parts: list[WindowPart]


def main(argv: list[str]) -> int:
    options = _parser().parse_args(argv)
    try:
        window = asyncio.run(look(options.session, options.model))
    except (ClewError, OSError) as error:
        sys.stderr.write(f"clew context: {describe_error(error)}\n")
        return 2
    if options.json:
        sys.stdout.write(msgspec.json.encode(as_json(window)).decode() + "\n")
    else:
        counted = window.counted
        how = "estimated" if counted is None else f"{counted:,} of them counted by the service"
        page = make_context_page(window.model, window.parts, how)
        lines = format_page(page, has_bars=True).split("\n")
        sys.stdout.write("\n".join(map(replace_unprintable, lines)) + "\n")
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = Group(
        prog="clew context",
        description="Show the tokens in the next request of a session, by source.",
    )
    parser.add_argument("session", nargs="?", metavar="SESSION", help="Session ID, title or file")
    parser.add_argument("--model", metavar="MODEL", help="Model for the request")
    parser.add_argument("--json", action="store_true", help="Print JSON")
    return parser


async def look(session: str | None, model_name: str | None) -> Window:
    cwd, options = Path.cwd(), Options(model=model_name)
    current = load_current_rules(os.environ, cwd)
    path = session and choose.resolve_session(current.places.config_home, str(cwd), session)
    loaded = load(path) if path else None
    catalog, _ = load_models(current.settings)
    model = choose_model(
        options,
        freeze(current.environ),
        current.settings,
        catalog,
        find_last_model(loaded, catalog),
    )
    toolbox = Toolbox((*outlined_tools(), SkillTool(NoSkills())), current.settings)
    request = make_template(options, model, toolbox.definitions(), "")
    prompts = Prompts(current.places.own / "prompts")
    record = None if loaded is None else read_recorded_opening(loaded)
    begins = as_before(request, options, prompts, record).standing
    if loaded is None:
        tells = bool(read_switch(current.settings, "autoMemoryEnabled"))

        def opening(launcher: Launcher) -> Opening:
            return Opening(
                launcher,
                cwd=cwd,
                environ=current.environ,
                folders=current.context.directories,
                gate=MemoryGate(lambda: current),
                nonce=make_id()[:8],
                memories=find_memory_folder(current.places) if tells else None,
            )

        entries = await _around(opening, model, toolbox)
    else:
        entries = loaded.messages
    counted, size = _size(entries)
    # Deferred tools that are not loaded use no tokens.
    tools = select_definitions(begins.tools, find_references(entries), takes_deferred=False)
    parts = break_down(entries, system=begins.system, tools=tools, counted=size)
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
    """Return the context that a new session in this folder starts with."""
    launcher = Launcher()
    opening = begin(launcher)
    try:
        facts = await opening.facts(model=model.id, day=get_timestamp()[:10])
        listing = make_tool_listing_fact((), toolbox.deferred())
        return make_attachments([*facts, *filter(None, [listing])])
    finally:
        await opening.aclose()
        await launcher.aclose()


def _size(entries: list[Json]) -> tuple[int | None, int | None]:
    """Return the service's last count, and that count plus an estimate of the later messages.

    Both are None if no response has a count.
    """
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


# The page of a context window, for this command and for `/context`.


SHOWN_PARTS = 6
# The groups of a context page, in order, by the kind of a part.
GROUPS = {
    "system prompt": "System prompt",
    "tools": "Tools",
    "mcp tools": "MCP tools",
    "memory files": "Memory files",
    "skills": "Skills",
    "context": "Session context",
    "messages": "Messages",
}
FREE = "Free space"


def make_context_page(model: Model, parts: Sequence[WindowPart], how: str) -> ReportPage:
    """Return the page of a context window: groups with their share of the window, then details."""
    window, used = model.context_window or 0, sum(part.tokens for part in parts)
    groups: dict[str, list[WindowPart]] = {name: [] for name in GROUPS.values()}
    for part in parts:
        groups[GROUPS[_kind(part)]].append(part)
    sums = {name: sum(part.tokens for part in inside) for name, inside in groups.items() if inside}
    total = window or used
    most = max(sums.values(), default=0)
    if window:
        sums[FREE] = max(0, window - used)
    rows = [
        PageRow(
            label=name,
            cells=(f"{tokens:,}", format_share(tokens, total)),
            share=tokens / most if name != FREE else None,
        )
        for name, tokens in sums.items()
    ]
    of = (
        f" of {format_tokens(window)} tokens ({format_share(used, window)})"
        if window
        else " tokens"
    )
    return ReportPage(
        title="Context",
        summary=f"{model.name} · {format_tokens(used)}{of}, {how}",
        groups=(
            PageGroup(title="By source", columns=("tokens", "of window"), rows=tuple(rows)),
            *(
                _details(name, inside)
                for name, inside in groups.items()
                if any(map(_label, inside))
            ),
        ),
        hints=("/context messages lists messages that you can exclude, summarize or pin",),
    )


def _kind(part: WindowPart) -> str:
    if part.kind == "context":
        return "skills" if part.name.startswith("skill") else "context"
    return part.kind if part.kind in GROUPS else "messages"


def _details(name: str, parts: Sequence[WindowPart]) -> PageGroup:
    """Return the largest parts of a group, and the sum of the rest."""
    shown_parts, rest = parts[:SHOWN_PARTS], parts[SHOWN_PARTS:]
    rows = [PageRow(label=_label(part), cells=(f"{part.tokens:,}",)) for part in shown_parts]
    if rest:
        tokens = sum(part.tokens for part in rest)
        rows.append(PageRow(label=f"{len(rest)} more", cells=(f"{tokens:,}",)))
    return PageGroup(title=name, columns=("tokens",), rows=tuple(rows))


def _label(part: WindowPart) -> str:
    """Return a readable name for a part; internal names are converted to ordinary words."""
    if part.kind in ("context", "memory files"):
        return part.name.removesuffix("_delta").replace("_", " ").capitalize()
    if part.kind in ("user", "assistant"):
        return f"{part.kind.capitalize()} {part.name or 'text'}"
    if part.kind in ("tool calls", "tool results"):
        return f"{part.name} {part.kind.removeprefix('tool ')}".strip()
    return part.name
