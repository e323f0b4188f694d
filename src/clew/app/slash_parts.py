"""Slash commands about what extends a session: skills, plugins, output styles."""

from clew.app.session import Session
from clew.app.styles import WAITS
from clew.commands.outcome import Outcome, Show
from clew.commands.rows import table
from clew.config.answers import assign
from clew.permissions.in_session import of_own
from clew.plugins.parts import told
from clew.skills.listing import LONG, cut
from clew.skills.skill import Skill


async def skills(session: Session, _: str) -> Outcome:
    """Every skill and who may call it, with the file it is."""
    rows = [
        (
            one.name,
            f"{cut(one.description or one.when, LONG // 4)} ({one.origin}{whose(one)}{held(session, one)})",
        )
        for one in session.skills.all()
    ]
    faults = [f"! {fault}" for fault in session.skills.faults]
    return Show(text="\n".join([table(sorted(rows)), *faults]))


def whose(one: Skill) -> str:
    if one.for_person and one.for_model:
        return ""
    if one.for_person:
        return ", for you alone"
    return ", for the model alone" if one.for_model else ", off"


def held(session: Session, one: Skill) -> str:
    """What of it does not count because nobody vouches for it."""
    brings = bool(one.allowed_tools) * ["rules"] + bool(one.hooks) * ["hooks"]
    if not brings or session.skills.counts(one):
        return ""
    return f", its {' and '.join(brings)} wait for your trust"


async def plugins(session: Session, _: str) -> Outcome:
    lines: list[str] = []
    for one in session.plugins:
        held = "" if one.may_run or not one.parts.runs else " (words only: not trusted)"
        lines += [f"{one.name} {one.parts.manifest.version}".rstrip() + held]
        lines += [f"  {line}" for line in told(one.parts)]
    return Show(text="\n".join(lines) or "no plugin is on; clew plugin install adds one")


async def reload(session: Session, _: str) -> Outcome:
    found = await session.reloading.all()
    counts = (
        (len(found.plugins), "plugins"),
        (len(found.skills), "commands and skills"),
        (len(found.agents), "kinds of agents"),
        (len(found.styles), "output styles"),
    )
    lines = [", ".join(f"{number} {what}" for number, what in counts)]
    lines += [f"begun: MCP server {name}" for name in found.begun]
    lines += [f"ended: MCP server {name}" for name in found.ended]
    lines += [f"! {fault}" for fault in found.faults]
    return Show(text="\n".join(lines))


async def output_style(session: Session, name: str) -> Outcome:
    styles, now = session.speech.styles, session.speech.style
    if not name:
        rows = [
            (f"{one.name}{' (now)' if one.name == now.name else ''}", one.description)
            for one in styles.found
        ]
        rows += [(one.name, f"of the project; {WAITS}") for one in session.speech.held]
        return Show(text=table(rows))
    chosen = styles.named(name)
    if chosen is None:
        return Show(text=session.speech.no_such(name), is_error=True)
    done = assign(session.rules.standing.places, "local", "outputStyle", chosen.name)
    noticed = of_own(await session.refresh())
    told = (
        f"{done.path}: output style {chosen.name}, from the next session on; this one keeps what it "
        "began with, which is in the service's cache (/clear begins a new one)"
    )
    return Show(text="\n".join([told, *done.faults, *noticed]))
