"""Facts that survive a compaction as data instead of prose: instructions, tasks, plan, files.

Collect facts from the components that own them and fit them into their share of the window.
Attachments recorded in the conversation itself are carried over verbatim. This module must never
read a file directly: `read` applies the session's permissions.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import chain
from typing import Any

from msgspec.structs import replace

from clew.agent.compaction.boundary import list_used_files
from clew.agent.compaction.retelling import cut_middle
from clew.agent.context.facts import Fact
from clew.agent.subagents.offer import BACKGROUND_TASKS
from clew.agent.tasks.notice import escape_tags
from clew.core.json_object import Json
from clew.core.messages.text import wrap_in_tag
from clew.core.normalize.tokens import estimate_content_tokens, estimate_text_tokens

MAX_FILES = 5
# A conservative minimum: in most languages, a token has more characters than this.
SAFE_CHARS = 2
# Sent once when the model first touched a folder or file, and not sent again automatically. Active
# skills are not included: `parts.skills.listing` gathers their text again for each summary.
CARRIED = frozenset({"nested_memory", "memory_note"})


def collect_carried_facts(covered: Iterable[Json]) -> Iterator[Fact]:
    """Yield the attachments in the summarized part that must be kept."""
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


def select_new_facts(facts: Iterable[Fact], kept_entries: Sequence[Json]) -> Iterator[Fact]:
    """Yield the facts that the kept part of the conversation does not contain yet."""
    known_facts = {
        (entry["attachment"].get("type"), _words(entry.get("rendered")))
        for entry in kept_entries
        if isinstance(entry.get("attachment"), dict)
    }
    for fact in facts:
        if (fact.payload.get("type"), tuple(fact.rendered)) not in known_facts:
            yield fact


def _words(rendered: Any) -> tuple[Any, ...]:
    pieces = rendered if isinstance(rendered, list) else ()
    return tuple(str(p.get("content")) for p in pieces if isinstance(p, dict))


def fit_facts(facts: Sequence[Fact], limit_tokens: int) -> tuple[list[Fact], list[str]]:
    """Return the facts, with the middle of oversized ones cut out, and descriptions of the cuts."""
    fitting_facts: list[Fact] = []
    shortened: list[str] = []
    for fact in facts:
        size = sum(map(estimate_content_tokens, fact.rendered))
        if size > limit_tokens:
            limit = limit_tokens * SAFE_CHARS // len(fact.rendered)
            fact = replace(
                fact, rendered=tuple(cut_middle(words, limit) for words in fact.rendered)
            )
            shortened.append(
                f"the middle of {fact.payload.get('type')} (about {size:,} tokens, too long for "
                "the context window)"
            )
        fitting_facts.append(fact)
    return fitting_facts, shortened


def todos_fact(todos: Sequence[Json]) -> Fact | None:
    """Return the task list as a fact, or None if it is empty."""
    if not todos:
        return None
    lines = [f"- [{todo.get('status')}] {todo.get('content')}" for todo in todos]
    words = "The current task list; do not repeat completed tasks:\n"
    return Fact(
        payload={"type": "todo", "content": list(todos), "itemCount": len(todos)},
        rendered=(_reminder(words + "\n".join(lines)),),
    )


def tasks_fact(rows: Sequence[Json]) -> Fact | None:
    """Return the running background tasks as a fact, or None.

    The calls that started the tasks may be in the summarized part.
    """
    if not rows:
        return None
    lines = [f"- {row['taskId']}: {row['kind']} “{row['title']}”" for row in rows]
    words = (
        "These background tasks are running. TaskOutput shows a task's new output, TaskStop stops it, and you "
        "are notified when it ends:\n"
    )
    return Fact(
        payload={"type": BACKGROUND_TASKS, "tasks": list(rows)},
        rendered=(_reminder(words + escape_tags("\n".join(lines))),),
    )


def plan_file_fact(path: str, text: str) -> Fact | None:
    if not text.strip():
        return None
    words = f"The plan of this session, from {path}:\n{text}"
    return Fact(
        payload={"type": "plan_file_reference", "planFilePath": path, "planContent": text},
        rendered=(_reminder(words),),
    )


def read_recent_files(
    covered: Sequence[Json],
    kept_entries: Sequence[Json],
    read: Callable[[str], str | None],
    *,
    total_tokens: int,
    file_tokens: int,
) -> Iterator[Fact]:
    """Yield the current contents of the most recently used files, newest first."""
    in_sight = {path for file in list_used_files(kept_entries) for path in file}
    left, count = total_tokens, 0
    for path in _newest(covered):
        if count == MAX_FILES:
            return
        text = None if path in in_sight else read(path)
        if text is None:
            continue
        excerpt = _fitted(text, min(file_tokens, left))
        size = estimate_text_tokens(excerpt)
        if not excerpt or size > left:
            continue
        left -= size
        count += 1
        yield _file_fact(path, excerpt, is_whole=excerpt == text)


def _newest(covered: Sequence[Json]) -> Iterator[str]:
    """Yield the files that were read or written, the most recently used first."""
    seen: set[str] = set()
    for entry in reversed(covered):
        if "toolUseResult" not in entry:
            continue
        for path in chain.from_iterable(list_used_files([entry])):
            if path not in seen:
                seen.add(path)
                yield path


def _fitted(text: str, tokens: int) -> str:
    """Return as many complete lines from the beginning of `text` as fit."""
    if tokens <= 0 or estimate_text_tokens(text) <= tokens:
        return text if tokens > 0 else ""
    part = text[: tokens * 3]
    return part[: part.rfind("\n") + 1]


def _file_fact(path: str, text: str, *, is_whole: bool) -> Fact:
    note = "" if is_whole else " (beginning only; read on if needed)"
    words = f"Current contents of {path}, which was in use before the summary{note}:\n{text}"
    payload = {"type": "file", "filename": path, "displayPath": path, "truncated": not is_whole}
    return Fact(payload=payload, rendered=(_reminder(words),))


def _reminder(words: str) -> str:
    return wrap_in_tag("system-reminder", f"\n{words}\n")
