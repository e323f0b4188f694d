"""Facts that a summary should contain: files, open tasks and the user's decisions.

Facts are the files that tools read or changed, open tasks, and the user's answers to questions. A
summary contains a file if the file's name occurs in it, a task if the task's text does, and a
decision if the answer does. This module does no I/O.
"""

from collections.abc import Iterator, Sequence

from clew.agent.compaction.boundary import rendered
from clew.core.json_object import Json, list_of, object_of, text_of
from clew.core.normalize.select import find_beginning, is_boundary

# The fields of a receipt that list facts, with their names for the user.
KINDS = {
    "filesChanged": "changed file",
    "filesRead": "read file",
    "openTodos": "open task",
    "decisions": "decision",
}


def list_facts(receipt: Json) -> Iterator[tuple[str, str, str]]:
    """Yield the facts in a receipt: kind, name, and the text to look for."""
    for kind, label in KINDS.items():
        for fact in list_of(receipt.get(kind)):
            if kind == "decisions":
                answer = text_of(object_of(fact).get("answer"))
                yield label, f"{object_of(fact).get('question')} {answer}", answer
            elif isinstance(fact, str):
                yield label, fact, fact.rpartition("/")[2] if kind.startswith("files") else fact


def find_dropped(history: Sequence[Json]) -> tuple[int, list[tuple[str, str]]] | None:
    """Return how many facts the last summary covered, and those that it dropped.

    A fact is dropped if neither the summary nor the restored or kept entries contain it. Return
    None if the conversation was not compacted.
    """
    if not len(history) or not is_boundary(history[0]):
        return None
    receipt = object_of(object_of(history[0].get("compactMetadata")).get("covers"))
    entries = [history[place] for place in range(1, find_beginning(history))]
    text = "\n".join(words for entry in entries for words in _texts(entry)).casefold()
    facts = list(list_facts(receipt))
    dropped = [(label, name) for label, name, words in facts if words.casefold() not in text]
    return len(facts), dropped


def _texts(entry: Json) -> Iterator[str]:
    for piece in rendered(entry):
        yield text_of(piece.get("content"))
    content = object_of(entry.get("message")).get("content")
    yield text_of(content)
    for block in list_of(content):
        yield text_of(object_of(block).get("text"))
