"""What survives a compaction as data and not as somebody's prose: instructions, tasks, plan, files.

Takes facts from whoever has them and fits them into their share of the window. What the conversation
itself was told beside the talk is carried on word for word. Must never read a file by itself: `read`
is what the session lets it see.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

from msgspec.structs import replace

from clew.agent.compaction.boundary import files
from clew.agent.compaction.retelling import cut
from clew.agent.context.facts import Fact
from clew.agent.subagents.offer import BACKGROUND_TASKS
from clew.agent.tasks.notice import plain
from clew.core.json_object import Json
from clew.core.messages.text import tagged
from clew.core.normalize.tokens import content_tokens, text_tokens

MAX_FILES = 5
# A token holds more characters than that in most languages.
SAFE_CHARS = 2
# Told once, when the model came upon a folder or a file; it is not told again by itself. Skills at work
# are: `parts.skills.listing` gathers their texts anew for each summary.
CARRIED = frozenset({"nested_memory", "memory_note"})


def carried(covered: Iterable[Json]) -> Iterator[Fact]:
    """What the covered part was told and has to go on knowing."""
    for entry in covered:
        payload = entry.get("attachment") if entry.get("type") == "attachment" else None
        if isinstance(payload, dict) and payload.get("type") in CARRIED:
            pieces = entry.get("rendered")
            words = [p.get("content") for p in pieces if isinstance(p, dict)] if pieces else []
            if words and all(isinstance(word, str) for word in words):
                role = entry.get("renderedRole")
                yield Fact(
                    payload=payload,
                    rendered=tuple(map(str, words)),
                    role=role if isinstance(role, str) else "user",
                )


def new(facts: Iterable[Fact], kept: Sequence[Json]) -> Iterator[Fact]:
    """The facts that the kept part of the conversation does not hold already."""
    told = {
        (entry["attachment"].get("type"), _words(entry.get("rendered")))
        for entry in kept
        if isinstance(entry.get("attachment"), dict)
    }
    for fact in facts:
        if (fact.payload.get("type"), tuple(fact.rendered)) not in told:
            yield fact


def _words(rendered: Any) -> tuple[Any, ...]:
    pieces = rendered if isinstance(rendered, list) else ()
    return tuple(str(p.get("content")) for p in pieces if isinstance(p, dict))


def fitted(facts: Sequence[Fact], limit_tokens: int) -> tuple[list[Fact], list[str]]:
    """The facts, of those that are larger than this the two ends, and what is to be said of them."""
    told: list[Fact] = []
    shortened: list[str] = []
    for fact in facts:
        size = sum(map(content_tokens, fact.rendered))
        if size > limit_tokens:
            limit = limit_tokens * SAFE_CHARS // len(fact.rendered)
            fact = replace(fact, rendered=tuple(cut(words, limit) for words in fact.rendered))
            shortened.append(
                f"the middle of {fact.payload.get('type')}, about {size:,} tokens, too much for "
                "this window"
            )
        told.append(fact)
    return told, shortened


def todos_fact(todos: Sequence[Json]) -> Fact | None:
    """The tasks as the list has them; what is done stays done."""
    if not todos:
        return None
    lines = [f"- [{todo.get('status')}] {todo.get('content')}" for todo in todos]
    words = "The list of tasks as it stands; what is completed is not to be done again:\n"
    return Fact(
        payload={"type": "todo", "content": list(todos), "itemCount": len(todos)},
        rendered=(_reminder(words + "\n".join(lines)),),
    )


def tasks_fact(rows: Sequence[Json]) -> Fact | None:
    """What works in the background: a summary may have taken away the call that began it."""
    if not rows:
        return None
    lines = [f"- {row['taskId']}: {row['kind']} “{row['title']}”" for row in rows]
    words = (
        "These tasks work in the background; TaskOutput shows what is new of one, TaskStop ends it, "
        "and you are told when it has ended:\n"
    )
    return Fact(
        payload={"type": BACKGROUND_TASKS, "tasks": list(rows)},
        rendered=(_reminder(words + plain("\n".join(lines))),),
    )


def plan_file_fact(path: str, text: str) -> Fact | None:
    if not text.strip():
        return None
    words = f"The plan of this session, from {path}:\n{text}"
    return Fact(
        payload={"type": "plan_file_reference", "planFilePath": path, "planContent": text},
        rendered=(_reminder(words),),
    )


def recent_files(
    covered: Sequence[Json],
    kept: Sequence[Json],
    read: Callable[[str], str | None],
    *,
    total_tokens: int,
    file_tokens: int,
) -> Iterator[Fact]:
    """The files that were last in use, as they are now, the newest first."""
    in_sight = {path for file in files(kept) for path in file}
    left, count = total_tokens, 0
    for path in _newest(covered):
        if count == MAX_FILES:
            return
        text = None if path in in_sight else read(path)
        if text is None:
            continue
        shown = _fitted(text, min(file_tokens, left))
        size = text_tokens(shown)
        if not shown or size > left:
            continue
        left -= size
        count += 1
        yield _file_fact(path, shown, is_whole=shown == text)


def _newest(covered: Sequence[Json]) -> list[str]:
    """Files by when they were last in use, whoever read or wrote them."""
    order: dict[str, None] = {}
    for entry in reversed(covered):
        for file in files([entry]):
            order.update(dict.fromkeys(path for path in file if path not in order))
    return list(order)


def _fitted(text: str, tokens: int) -> str:
    """The beginning of a text, whole lines, as far as it fits."""
    if tokens <= 0 or text_tokens(text) <= tokens:
        return text if tokens > 0 else ""
    part = text[: tokens * 3]
    return part[: part.rfind("\n") + 1]


def _file_fact(path: str, text: str, *, is_whole: bool) -> Fact:
    more = "" if is_whole else " (its beginning; read on where it matters)"
    words = f"{path}, which was in use before the summary, is now{more}:\n{text}"
    payload = {"type": "file", "filename": path, "displayPath": path, "truncated": not is_whole}
    return Fact(payload=payload, rendered=(_reminder(words),))


def _reminder(words: str) -> str:
    return tagged("system-reminder", f"\n{words}\n")
