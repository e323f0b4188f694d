"""`/rewind`: back to any message of the session that is open, and back again. Loaded when it is typed."""

from clew.app.rewind_preview import shown
from clew.app.rewinding import WHATS, Rewinding, What
from clew.app.session import Session
from clew.commands.outcome import Outcome, Pick, Rewound, Row, Show
from clew.engine.intake import title_of
from clew.messages.counts import count_of
from clew.messages.errors import UserError
from clew.rewind.restore import Plan

SHOWN_CHARACTERS = 70
SHORT = 8
FORCE, REDO = "force", "redo"
LABELS: dict[What, str] = {
    "both": "conversation and files",
    "conversation": "the conversation alone; files stay as they are",
    "files": "the files alone; the conversation stays as it is",
}


async def rewind(session: Session, arguments: str) -> Outcome:
    words = arguments.split()
    is_forced = FORCE in words[1:]
    message, *more = [w for n, w in enumerate(words) if not (n and w == FORCE)] or [""]
    rewinding = Rewinding(session)
    if not message:
        return await _prompts(rewinding)
    if message == REDO and not more:
        return await _done(rewinding, await rewinding.planned_redo(), REDO, is_forced=is_forced)
    if len(more) > 1 or any(word not in WHATS for word in more):
        raise UserError(f"MESSAGE [{' | '.join(WHATS)}] [{FORCE}], or {REDO} [{FORCE}]")
    if not more:
        return await _preview(rewinding, message)
    what = next(known for known in WHATS if known == more[0])
    planned = await rewinding.planned(message, what)
    return await _done(rewinding, planned, f"{message} {what}", is_forced=is_forced)


async def _prompts(rewinding: Rewinding) -> Outcome:
    found = await rewinding.prompts()
    if not found:
        return Show(text="nothing was said yet")
    rows = []
    for prompt in found:
        words = " ".join(title_of(prompt.text).split())[:SHOWN_CHARACTERS]
        files = (
            f"  ({count_of(prompt.files_since, 'file')} changed since)"
            if prompt.files_since
            else ""
        )
        rows.append(Row(line=f"/rewind {prompt.uuid[:SHORT]}", label=f"before: {words}{files}"))
    return Pick(title="back to", rows=tuple(rows))


async def _preview(rewinding: Rewinding, message: str) -> Outcome:
    planned = await rewinding.planned(message, "both")
    force = "" if planned.is_clear else f" {FORCE}"
    rows = [
        Row(
            line=f"/rewind {message} {what}{'' if what == 'conversation' else force}",
            label=LABELS[what] + ("" if what == "conversation" or not force else _forced(planned)),
        )
        for what in WHATS
    ]
    return Pick(
        title="take back",
        rows=tuple(rows),
        text=shown(planned, rewinding.blobs, await rewinding.where(planned)),
    )


def _forced(planned: Plan) -> str:
    over = f"over {len(planned.foreign)} that others changed" if planned.foreign else ""
    without = f"without {len(planned.lost)} that are lost" if planned.lost else ""
    return f" ({', '.join(filter(None, [over, without]))})"


async def _done(rewinding: Rewinding, planned: Plan, words: str, *, is_forced: bool) -> Outcome:
    where = await rewinding.where(planned)
    if not planned.is_clear and not is_forced:
        return Show(
            text=f"{shown(planned, rewinding.blobs, where)}\nnothing was changed; "
            f"/rewind {words} {FORCE} goes over what others changed, and without what is lost",
            is_error=True,
        )
    said = rewinding.said_at(planned.to) if planned.conversation else ""
    await rewinding.carry_out(planned, force=is_forced)
    lines = [f"{change.verb}: {change.path}" for change in planned.changes]
    if planned.conversation:
        lines.append(f"the conversation stands {where}")
    if planned.redo_of is None:
        lines.append(f"/rewind {REDO} takes this back")
    return Rewound(text="\n".join(lines), prompt=said)
