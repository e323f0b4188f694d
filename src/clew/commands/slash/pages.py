"""Slash commands that show a page: context, cost, usage, models, settings, permissions, status."""

import asyncio
from collections.abc import Iterator, Mapping, Sequence
from datetime import timedelta
from typing import Any

from clew.commands.context import make_context_page
from clew.commands.slash import SlashHandlers, show_page
from clew.core.catalog.models import Model, find_price
from clew.core.input import Outcome, Pick, PickRow, Show
from clew.core.ledger.breakdown import break_down
from clew.core.ledger.cache_miss import sum_up
from clew.core.ledger.ledger import Spend
from clew.core.messages.errors import SettingsError
from clew.core.messages.text import format_count, format_tokens
from clew.core.normalize.target import find_references, select_definitions
from clew.core.page import PageGroup, PageRow, ReportPage, format_share, pairs
from clew.permissions.in_session import of_own
from clew.permissions.modes import describe_mode
from clew.session.session import Session
from clew.system.clock import format_local_timestamp, get_timestamp, local_time
from clew.system.config.layers import Layer, Scope, find_origins, find_value, merge, select_active
from clew.system.config.load import (
    assign,
    explain_setting,
    format_value,
    load_settings,
    parse_value,
    trusts,
    where,
)
from clew.system.config.paths import Places
from clew.system.config.settings import KEYS, SettingKey, find_nearest_key, is_known, read_text
from clew.system.files import is_there
from clew.version import VERSION

SHOWN_MISSES = 5
SHOWN_DAYS = 7


async def context(session: Session, arguments: str) -> Outcome:
    """Show what fills the context window, or edit it."""
    if arguments:
        from clew.commands.slash.context import edit

        return await edit(session, arguments)
    template = session.model_access.requests.template
    history = session.story.sent
    tools = select_definitions(
        session.tools.toolbox.definitions(), find_references(history), takes_deferred=False
    )
    system = template.system if isinstance(template.system, list) else []
    parts = break_down(history, system=system, tools=tools)
    return show_page(make_context_page(session.model, parts, "estimated"))


# `/cost` and `/usage`


async def cost(session: Session, _: str) -> Outcome:
    ledger = session.ledger()
    hints = ("/usage shows times and recent days", "clew cost shows all sessions")
    page = ReportPage(
        title="Cost",
        summary=", ".join(
            filter(None, [f"{money(ledger.total)} in this session", describe_shipped(session)])
        ),
        groups=(_spent("By model", ledger.by_model()), *_cache(session, ledger.total)),
        hints=hints,
    )
    return show_page(page)


COLUMNS = ("responses", "input", "output", "cached", "cost")


def _spent(title: str, sums: Mapping[str, Spend]) -> PageGroup:
    most = max((spend.usd for spend in sums.values()), default=0)
    rows = [
        PageRow(
            label=name,
            cells=(
                f"{spend.requests:,}",
                format_tokens(_sent(spend)),
                format_tokens(spend.tokens.output),
                format_share(spend.tokens.cache_read, _sent(spend)),
                f"${spend.usd:,.4f}",
            ),
            share=float(spend.usd / most) if most else 0,
            note=_unpriced(spend),
        )
        for name, spend in sums.items()
    ]
    return PageGroup(
        title=title, columns=COLUMNS, rows=tuple(rows) or (PageRow(label="No responses yet"),)
    )


def _sent(spend: Spend) -> int:
    """Return the number of tokens that were sent, cached or not."""
    tokens = spend.tokens
    return tokens.input + tokens.cache_read + tokens.cache_write_5m + tokens.cache_write_1h


def _unpriced(spend: Spend) -> str:
    return f"{spend.unpriced} without a known price" if spend.unpriced else ""


def _cache(session: Session, total: Spend) -> Iterator[PageGroup]:
    """Yield the rows about the prompt cache: hits, the latest misses, and cache warming."""
    warmer, misses = session.model_access.cache.warmer, session.model_access.cache.misses
    sent = _sent(total)
    read = total.tokens.cache_read
    rows = [
        PageRow(
            label="Cache hits",
            cells=(format_share(read, sent),),
            share=read / sent if sent else 0,
            note=f"{format_tokens(read)} of {format_tokens(sent)} input tokens",
        )
    ]
    if misses:
        last = misses[-SHOWN_MISSES:]
        label = f"the last {len(last)} are listed" if len(misses) > len(last) else ""
        rows.append(
            PageRow(label="Cache misses", note="; ".join(filter(None, [sum_up(misses), label])))
        )
        rows += [
            PageRow(label=f"  {format_local_timestamp(miss.at)[11:]}", note=str(miss))
            for miss in last
        ]
    notes = []
    if warmer is not None:
        spend = warmer.spend
        if spend.requests or warmer.reserved_usd:
            notes.append(f"{format_count(spend.requests, 'request')}, {money(spend)} of the total")
        if warmer.reserved_usd:
            notes.append(f"up to ${warmer.reserved_usd:.4f} for requests that were cancelled")
        if warmer.saved_usd:
            notes.append(f"saved about ${warmer.saved_usd:.4f}")
        if warmer.trouble:
            notes.append(f"stopped: {warmer.trouble}")
    if notes:
        rows.append(PageRow(label="Cache warming", note="; ".join(notes)))
    if sent or len(rows) > 1:
        yield PageGroup(title="Prompt cache", rows=tuple(rows))


def money(spend: Spend) -> str:
    """Format dollars, noting responses without a known price."""
    known_part = f"${spend.usd:,.4f}"
    if not spend.unpriced:
        return known_part
    return f"{known_part} and {format_count(spend.unpriced, 'response')} without a known price"


def describe_shipped(session: Session) -> str:
    """Describe the session's commits and pull requests; empty if there are none."""
    state, past = session.costs.spending.state, session.costs.past
    counts = [
        (past.commits + state.commits, "commit"),
        (past.pull_requests + state.pull_requests, "pull request"),
    ]
    return ", ".join(format_count(count, name) for count, name in counts if count)


async def usage(session: Session, _: str) -> Outcome:
    """Show the totals of the session across all runs, and the last days of this folder."""
    state, past = session.costs.spending.state, session.costs.past
    ledger = session.ledger()
    times = [
        ("API time", seconds(past.api_ms, state.api_ms)),
        ("Tool time", seconds(past.tool_ms, state.tool_ms)),
        (
            "Lines",
            f"{past.lines_added + state.lines_added:,} added, "
            f"{past.lines_removed + state.lines_removed:,} removed",
        ),
    ]
    shipped = describe_shipped(session)
    if shipped:
        times.append(("Created", shipped))
    if past.duration_ms:
        times.insert(0, ("Counted", "since the session was created, over all runs"))
    groups = [
        _spent("By model", ledger.by_model()),
        *_cache(session, ledger.total),
        pairs(times, "Time and changes"),
    ]
    days = await asyncio.to_thread(_days, session)
    if days:
        groups.append(_spent("By day, all sessions of this folder", days))
    page = ReportPage(
        title="Usage",
        summary=f"{format_count(ledger.total.requests, 'response')}, {money(ledger.total)}",
        groups=tuple(groups),
        hints=("clew cost shows all folders and more tables",),
    )
    return show_page(page)


def _days(session: Session) -> dict[str, Spend]:
    """Return the spending of the last days in this folder, newest first, from the transcripts."""
    from clew.commands.cost import day_of
    from clew.record.library.costs import gather
    from clew.record.transcript import light, paths

    places = session.rules.standing.places
    folder = paths.get_project_dir(places.config_home, paths.resolve_folder(str(places.cwd)))
    first = local_time() - timedelta(days=SHOWN_DAYS - 1)
    since, began_s = f"{first:%Y-%m-%d}", first.timestamp() - timedelta(days=1).total_seconds()
    recent = [
        path
        for path in reversed(light.list_session_files(folder))
        if path.stat().st_mtime >= began_s
    ]
    catalog = session.model_access.speaking.catalog
    costs = gather(recent, catalog, counts=lambda charge: day_of(charge) >= since)
    days = costs.by(lambda one_session: one_session.ledger.by(day_of))
    return dict(sorted(days.items(), reverse=True))


def seconds(before_ms: float, now_ms: float) -> str:
    duration = f"{(before_ms + now_ms) / 1000:.1f} s"
    return f"{duration}, {now_ms / 1000:.1f} s of it in this run" if before_ms else duration


# `/model`


async def model(session: Session, name: str) -> Outcome:
    if name:
        chosen = await session.model_access.switching.to(name)
        unheard = "" if chosen.known else " (unknown to clew: no price or context window)"
        return Show(text=f"Model set to {chosen.id}{unheard}{describe_change(session)}")
    choices = await list_models(session)
    rows = [
        PickRow(line=f"/model {name}", label=f"{label_model(name, entry)}  {describe_facts(entry)}")
        for name, entry in choices
    ]
    current_id = session.model.id
    at = next((n for n, (_, entry) in enumerate(choices) if entry.id == current_id), 0)
    text = f"Current model: {current_id}, effort {describe_effort(session)}"
    return Pick(title="Select a model", rows=tuple(rows), text=text, at=at)


def describe_change(session: Session) -> str:
    """Describe what the newly selected model will not receive, as a suffix for a line of text."""
    # Imported here, because few sessions change the model.
    from clew.agent.switching import describe_switch

    speaking = session.model_access.speaking
    words = describe_switch(session.story.history, speaking.target, speaking.model)
    return f" · {words}" if words else ""


# How many models of each service the list shows. `/model` accepts all other names too.
MOST_LISTED = 12


async def list_models(session: Session) -> list[tuple[str, Model]]:
    """Return the first models of each service and the current one, each with its name."""
    access = session.model_access
    current = access.speaking.model
    names: dict[str, Model] = {}
    for offer in await access.offers():
        names |= dict(offer.models[:MOST_LISTED])
    if all(entry.id != current.id for entry in names.values()):
        names = {current.id: current} | names
    return list(names.items())


def name_models(session: Session) -> list[tuple[str, str]]:
    """Return names that `/model` accepts, each with the model's ID or its service's title."""
    speaking = session.model_access.speaking
    names = sorted(speaking.catalog.aliases.items())
    for row in speaking.usable_services():
        for model in speaking.catalog.known.names(row.catalog_name):
            names.append((f"{row.name}/{model}", row.title))
    return names


def label_model(name: str, entry: Model) -> str:
    """Return a model's ID, or its full name if that contains a different ID."""
    return entry.id if name in ("", entry.id) or "/" not in name else name


def describe_facts(entry: Model) -> str:
    """Return a model's price, window and abilities in one line."""
    return ", ".join(filter(None, (*describe_model(entry), describe_abilities(entry))))


def describe_model(entry: Model) -> tuple[str, str, str]:
    """Return a model's prices for input and output per million tokens, and its context window."""
    price = find_price(entry.prices, get_timestamp())
    window = f"{format_tokens(entry.context_window)} context" if entry.context_window else ""
    if price is None:
        return "price unknown", "", window
    rates = price.rates
    return f"${rates.input.normalize():f} in", f"${rates.output.normalize():f} out per M", window


def describe_abilities(entry: Model) -> str:
    """Return a model's known abilities and limitations."""
    words = [word for has, word in ((entry.images, "images"), (entry.pdfs, "PDFs")) if has]
    words += ["no tools"] if entry.tools is False else []
    words += [f"retires {entry.retired}"] if entry.retired else []
    return ", ".join(words)


def describe_effort(session: Session) -> str:
    return session.model_access.requests.template.effort or "auto"


# `/permissions` and `/status`


async def permissions(session: Session, word: str) -> Outcome:
    if word == "sandbox":
        page = ReportPage(title="Sandbox", groups=(pairs(await session.parts.sandbox.page()),))
        return show_page(page)
    if word:
        return Show(
            text=f"Permission mode: {describe_mode(session.parts.planning.change_mode(word))}"
        )
    standing = session.rules.standing
    groups = []
    for behavior in ("allow", "ask", "deny"):
        rules = [rule for rule in standing.rules.rules if rule.behavior == behavior]
        rows = [(rule.text, standing.where(rule)) for rule in rules] or [("none", "")]
        groups.append(pairs(rows, behavior.capitalize()))
    page = ReportPage(
        title="Permissions",
        summary=describe_mode(session.mode),
        groups=tuple(groups),
        hints=(
            "/permissions MODE changes the mode",
            "/permissions sandbox shows the sandbox",
            "clew permissions add adds a rule",
        ),
    )
    return show_page(page)


async def status(session: Session, _: str) -> Outcome:
    transcript = session.story.recorder.transcript
    deferred = len(session.tools.toolbox.deferred())
    shipped = describe_shipped(session)
    page = ReportPage(
        title="Status",
        summary=f"clew {VERSION}",
        groups=(
            pairs(
                [
                    ("Session", session.session_id),
                    ("Folder", str(session.rules.standing.places.cwd)),
                    ("Transcript", str(transcript) if is_there(transcript) else "not written yet"),
                    ("Debug log", session.workspace.debug_file or "not written (use --debug)"),
                    *([("Created", shipped)] if shipped else ()),
                ],
                "Session",
            ),
            pairs(
                [
                    ("Model", session.model.id),
                    ("Service", session.model_access.find_address(session.model.id)),
                    ("Effort", describe_effort(session)),
                    ("Mode", describe_mode(session.mode)),
                    ("Tools", f"{len(session.tools.toolbox)} ({deferred} loaded on demand)"),
                ],
                "Model and tools",
            ),
        ),
        hints=("/context, /usage and /config show more",),
    )
    return show_page(page)


# `/config`

FIRST = "Set by you"


async def config(session: Session, arguments: str) -> Outcome:
    places = session.rules.standing.places
    key, _, value = arguments.partition(" ")
    if not key:
        return show_page(make_settings_page(places))
    if not value:
        return Show(text="\n".join(explain_setting(places, key)))
    return Show(text=await set_value(session, key, parse_value(key, value.strip())))


async def set_value(session: Session, key: str, value: Any, scope: Scope = "user") -> str:
    """Write a setting, apply it to the session, and return a message about the change."""
    if not is_known(key):
        near = find_nearest_key(key)
        hint = f'did you mean "{near}"?' if near else "run /config for a list"
        raise SettingsError(f'unknown key "{key}" ({hint})')
    done = assign(session.rules.standing.places, scope, key, value)
    noticed = of_own(await session.parts.refresh())
    return "\n".join([f"{done.path}: {key} set", *done.faults, *noticed])


def read_layers(places: Places) -> tuple[Sequence[Layer], dict[str, Any]]:
    """Return the layers of settings in effect, and the settings merged from them."""
    layers, _ = select_active(load_settings(places).layers, trusted=trusts(places))
    return layers, merge(layers)


def list_keys() -> list[SettingKey]:
    """Return the keys that have an effect in clew and can be set by the user."""
    return [
        key for key in KEYS if key.has_effect and not key.managed_only and key.name != "$schema"
    ]


def make_settings_page(places: Places) -> ReportPage:
    """Return the settings that are set, with their source, then all others."""
    layers, settings = read_layers(places)
    changed, rest = [], []
    for key in list_keys():
        path = tuple(key.name.split("."))
        present, value = find_value(settings, path)
        if present and key.name != "permissions":
            origin = where(find_origins(layers, path)[0].layer, path)
            changed.append((key.name, f"{format_value(value)}  {origin}"))
        else:
            default = "" if key.default is None else f" (default: {format_value(key.default)})"
            rest.append((key.name, f"{key.meaning}{default}"))
    return ReportPage(
        title="Settings",
        summary=f"{len(changed)} of {len(changed) + len(rest)} set",
        groups=(
            pairs(changed or [("none", "all settings have their defaults")], "Set"),
            pairs(rest, "Not set"),
        ),
        hints=("/config KEY explains a setting", "/config KEY VALUE changes it"),
    )


# `/theme`

THEME_LABELS = {
    "auto": "Auto (follows the terminal's background)",
    "dark": "Dark",
    "light": "Light",
    "dark-daltonized": "Dark, color-blind safe (blue and orange)",
    "light-daltonized": "Light, color-blind safe (blue and orange)",
    "dark-ansi": "The terminal's own 16 colors",
    "plain": "No colors",
}


async def theme(session: Session, name: str) -> Outcome:
    if name:
        return Show(text=await set_value(session, "theme", name))
    rows = [PickRow(line=f"/theme {name}", label=label) for name, label in THEME_LABELS.items()]
    current = read_text(session.rules.standing.settings, "theme") or "auto"
    at = [*THEME_LABELS].index(current) if current in THEME_LABELS else 0
    return Pick(title="Choose a theme", rows=tuple(rows), of="themes", at=at)


HANDLERS: SlashHandlers = {
    "config": config,
    "context": context,
    "cost": cost,
    "model": model,
    "permissions": permissions,
    "status": status,
    "theme": theme,
    "usage": usage,
}
