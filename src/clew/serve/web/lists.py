"""The page's views of the log: sessions with their open questions, and events from the end."""

import json
from collections.abc import Sequence

import msgspec

from clew.core.json_object import Json, object_of
from clew.serve import log
from clew.serve.database import Transaction
from clew.serve.frames import show_session
from clew.serve.log import LoggedEvent

# The most events in a page of history, regardless of the request.
MOST_EVENTS = 500
# A page of history ends at this size, which its last event may exceed.
PAGE_BYTES = 400_000
MOST_HITS = 50
SNIPPET_BEFORE, SNIPPET_CHARACTERS = 60, 200


def list_all(transaction: Transaction, owner: str, limit: int) -> list[Json]:
    """Return an owner's sessions: those with open questions first, then the newest."""
    waiting = find_waiting(transaction, owner)
    sessions = [
        show_session(row)
        | dict(zip(("waiting", "asks"), waiting.get(row["id"], (0, "")), strict=True))
        for row in log.list_sessions(transaction, owner, limit)
    ]
    return sorted(sessions, key=lambda session: session["waiting"] == 0)


def show_one(transaction: Transaction, session: str, owner: str) -> Json:
    row = log.find_session(transaction, session, owner)
    questions = read_open_questions(transaction, row["id"])
    about = describe_question(questions[0].body) if questions else ""
    return show_session(row) | {"waiting": len(questions), "asks": about}


def find_waiting(transaction: Transaction, owner: str) -> dict[str, tuple[int, str]]:
    """Return the number of open questions and the subject of the oldest, by session."""
    rows = transaction.run(
        "SELECT question.session, COUNT(*), MIN(question.seq) FROM question"
        " JOIN session ON session.id=question.session"
        " WHERE question.answer='' AND session.owner=? GROUP BY question.session",
        owner,
    )
    waiting = {}
    for session, count, seq in rows:
        [event] = log.read_events(transaction, session, int(seq) - 1, 1)
        waiting[str(session)] = (int(count), describe_question(event.body))
    return waiting


def describe_question(body: bytes) -> str:
    request = object_of(msgspec.json.decode(body, type=dict).get("request"))
    arguments = object_of(request.get("input"))
    questions = arguments.get("questions")
    first = object_of(questions[0]) if isinstance(questions, list) and questions else {}
    candidates = [arguments.get(name) for name in ("command", "file_path", "url", "description")]
    candidates.append(first.get("question"))
    text = next((value for value in candidates if isinstance(value, str) and value), None)
    return " ".join(str(text or request.get("tool_name") or "").split())[:SNIPPET_CHARACTERS]


def read_before(
    transaction: Transaction, session: str, before: int, limit: int
) -> list[LoggedEvent]:
    """Return the last events before a number, oldest first."""
    sizes = transaction.run(
        "SELECT seq, LENGTH(body) FROM event WHERE session=? AND seq<? ORDER BY seq DESC LIMIT ?",
        session,
        before,
        min(limit, MOST_EVENTS),
    )
    if not sizes:
        return []
    total, first = 0, int(sizes[0][0])
    for seq, size in sizes:
        first = int(seq)
        total += int(size)
        if total > PAGE_BYTES:
            break
    count = before - first if before - first < MOST_EVENTS else MOST_EVENTS
    events = log.read_events(transaction, session, first - 1, count)
    return [event for event in events if event.seq < before]


def read_open_questions(transaction: Transaction, session: str) -> list[LoggedEvent]:
    rows = transaction.run(
        "SELECT seq FROM question WHERE session=? AND answer='' ORDER BY seq", session
    )
    return [
        event for row in rows for event in log.read_events(transaction, session, int(row[0]) - 1, 1)
    ]


def show_events(
    transaction: Transaction, session: str, events: Sequence[LoggedEvent]
) -> list[Json]:
    """Return events in the page's format, without answered questions."""
    closed: set[int] = set()
    if any(event.kind == "control_request" for event in events):
        closed = log.closed_questions(transaction, session)
    return [
        {
            "sequence_num": event.seq,
            "event_id": event.id,
            "source": event.source,
            "status": event.status,
            "at_ms": event.created_at_ms,
            "by": event.sender,
            "payload": msgspec.Raw(event.body),
        }
        for event in events
        if event.seq not in closed
    ]


def search_events(transaction: Transaction, owner: str, words: str) -> list[Json]:
    """Return the newest events in an owner's sessions whose text contains `words`."""
    # Databases differ in case folding beyond ASCII; the snippet search ignores case correctly.
    text = msgspec.json.encode(words).decode()[1:-1]
    pattern = "".join(("\\" + c if c in "%_\\" else c) if c.isascii() else "%" for c in text)
    rows = transaction.run(
        "SELECT event.session, event.seq, event.body, event.created_at, session.title FROM event"
        " JOIN session ON session.id=event.session WHERE session.owner=?"
        " AND event.kind IN ('user', 'assistant')"
        " AND LOWER(CAST(event.body AS TEXT)) LIKE LOWER(?) ESCAPE '\\'"
        " ORDER BY event.created_at DESC, event.seq DESC LIMIT ?",
        owner,
        f"%{pattern}%",
        MOST_HITS * 4,
    )
    hits: list[Json] = []
    for session, seq, body, at, title in rows:
        snippet = find_snippet(json.loads(bytes(body)), words)
        if snippet and len(hits) < MOST_HITS:
            hits.append(
                {
                    "session_id": session,
                    "sequence_num": int(seq),
                    "title": title,
                    "snippet": snippet,
                    "at_ms": int(at),
                }
            )
    return hits


def find_snippet(payload: Json, words: str) -> str:
    """Return the excerpt of a message that contains `words`, or an empty string."""
    content = object_of(payload.get("message")).get("content")
    blocks = content if isinstance(content, list) else [{"text": content}]
    for block in map(object_of, blocks):
        texts = [block.get("text"), block.get("content"), *object_of(block.get("input")).values()]
        for text in texts:
            at = text.lower().find(words.lower()) if isinstance(text, str) else -1
            if at >= 0:
                start = max(0, at - SNIPPET_BEFORE)
                snippet = " ".join(text[start : start + SNIPPET_CHARACTERS].split())
                return ("… " if start else "") + snippet
    return ""
