"""Print the tables of docs/internals/messages.md: `python -m scripts.message_table kinds`."""

import sys
from collections.abc import Callable, Iterator

from clew.core.messages.blocks import BLOCKS
from clew.core.messages.kinds import BESIDE, CHAIN, KINDS, LIVE, Kind
from clew.core.messages.messages import FACES, SUBTYPES, Entry
from clew.core.messages.views import View, fields
from clew.record.transcript.policy import CLEANED

PLACES = {CHAIN: "On the chain", BESIDE: "Outside the chain", LIVE: "Only at run time"}


def summary(view: type[View]) -> str:
    """Return the first sentence of a view's docstring on one line."""
    text = " ".join((view.__doc__ or "").split())
    return text.split(". ")[0].split("; ")[0].rstrip(".")


def own_fields(view: type[View], *, shared: type[View] = Entry) -> str:
    """Return the wire names of a view's fields, without those that all entries share."""
    common = fields(shared) if issubclass(view, shared) else {}
    names = [
        f"{field.inside}.{field.key}" if field.inside else field.key
        for name, field in fields(view).items()
        if name not in common
    ]
    return ", ".join(f"`{name}`" for name in names) or "-"


def kinds() -> Iterator[str]:
    for place, title in PLACES.items():
        chosen = {tag: kind for tag, kind in KINDS.items() if kind.place == place}
        yield f"### {title}\n"
        yield from rows(chosen)
        yield ""


def rows(chosen: dict[str, Kind]) -> Iterator[str]:
    yield "| type | meaning | source | used by | written by clew |"
    yield "| --- | --- | --- | --- | --- |"
    for tag, kind in chosen.items():
        written = "yes" if kind.written else "no"
        yield f"| `{tag}` | {summary(kind.view)} | {kind.comes_from} | {kind.goes_to} | {written} |"


def kind_fields() -> Iterator[str]:
    yield "| type | fields |"
    yield "| --- | --- |"
    yield f"| every entry | {', '.join(f'`{field.key}`' for field in fields(Entry).values())} |"
    for tag, kind in KINDS.items():
        yield f"| `{tag}` | {own_fields(kind.view)} |"


def blocks() -> Iterator[str]:
    yield "| type | meaning | role | streamed | fields |"
    yield "| --- | --- | --- | --- | --- |"
    for tag, block in BLOCKS.items():
        roles = " and ".join(sorted(block.roles))
        streams = "yes" if block.streams else "no"
        yield f"| `{tag}` | {summary(block)} | {roles} | {streams} | {own_fields(block)} |"


def names() -> Iterator[str]:
    yield f"- Kinds of user messages; the first match applies: {', '.join(f'`{f}`' for f in FACES)}"
    yield f"- Subtypes of system messages: {', '.join(f'`{s}`' for s in sorted(SUBTYPES))}"


def cleaning() -> Iterator[str]:
    yield "| field | reason for removing it |"
    yield "| --- | --- |"
    for field, why in CLEANED.items():
        yield f"| `{field}` | {why} |"


TABLES: dict[str, Callable[[], Iterator[str]]] = {
    "kinds": kinds,
    "fields": kind_fields,
    "blocks": blocks,
    "names": names,
    "cleaning": cleaning,
}


def main() -> int:
    if len(sys.argv) != 2 or sys.argv[1] not in TABLES:
        print(f"expected one of {', '.join(TABLES)}")
        return 2
    print("\n".join(TABLES[sys.argv[1]]()).rstrip())
    return 0


if __name__ == "__main__":
    sys.exit(main())
