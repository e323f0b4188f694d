"""Which skills there are, told to the model within a budget; and which are at work.

What was told is read off the conversation itself, so that a session that goes on tells what is new and
nothing twice.
"""

from collections.abc import Collection, Iterable, Iterator, Sequence
from typing import Any

from clew.agent.context.facts import Fact
from clew.core.json_object import Json
from clew.core.normalize.tokens import text_tokens
from clew.parts.skills.skill import Skill

KIND = "skill_listing"
KEPT = "invoked_skills"
BUDGET_TOKENS = 1_900
# Of one description, and of one where there are too many for that.
LONG, SHORT = 400, 100
KEPT_TOKENS = 5_000
ALL_KEPT_TOKENS = 25_000

HEAD = "Skills, which the Skill tool loads when they fit the task:"
GONE = "Skills that are gone:"


def told(entries: Iterable[Json]) -> set[str]:
    """The names that the model was told of, also those that were only counted."""
    names: set[str] = set()
    for entry in entries:
        payload = entry.get("attachment") if entry.get("type") == "attachment" else None
        if type(payload) is dict and payload.get("type") == KIND:
            names -= _texts(payload.get("removed"))
            names |= _texts(payload.get("skills")) | _texts(payload.get("unlisted"))
    return names


def _texts(value: Any) -> set[str]:
    return {one for one in value if type(one) is str} if type(value) is list else set()


def listing_fact(known: Collection[str], skills: Iterable[Skill]) -> Fact | None:
    """What to say so that the model knows of `skills`; nothing if it does."""
    there = {one.name: one for one in skills}
    new = [one for name, one in there.items() if name not in known]
    gone = sorted(set(known) - set(there))
    if not new and not gone:
        return None
    lines, listed = told_within(new, BUDGET_TOKENS)
    unlisted = [one.name for one in new[listed:]]
    if unlisted:
        lines.append(f"... and {len(unlisted)} more, which the Skill tool's `search` finds.")
    said = [HEAD, *lines] if new else []
    if gone:
        said += [GONE, ", ".join(gone)]
    payload = {
        "type": KIND,
        "skills": [one.name for one in new[:listed]],
        "unlisted": unlisted,
        "removed": gone,
        # Whose words the descriptions are.
        "origins": sorted({one.origin for one in new}),
    }
    return Fact(payload=payload, rendered=("\n".join(said),), role="system")


def told_within(skills: Sequence[Skill], budget: int) -> tuple[list[str], int]:
    """Lines about as many skills as a budget holds, in the longest form that holds them all; else names
    of as many as there is room for. Second, how many that are."""
    lines: list[str] = []
    for form in (long_line, short_line, name_line):
        lines, used = [], 0
        for skill in skills:
            line = form(skill)
            # Estimates are of words in prose; names of skills are denser.
            used += text_tokens(line) + 2
            if used > budget:
                break
            lines.append(line)
        else:
            return lines, len(lines)
    return lines, len(lines)


def about(one: Skill) -> str:
    if not (one.description and one.when):
        return one.description or one.when
    return f"{one.description.rstrip('.')}. {one.when}"


def long_line(one: Skill) -> str:
    return f"- {one.name}: {cut(about(one), LONG)}"


def short_line(one: Skill) -> str:
    return f"- {one.name}: {cut(about(one), SHORT)}"


def name_line(one: Skill) -> str:
    return f"- {one.name}"


def cut(text: str, most: int) -> str:
    """At a word's end where there is one."""
    if len(text) <= most:
        return text
    words, _, rest = text[: most - 2].rpartition(" ")
    return f"{(words or rest[: most - 3]).rstrip()}..."


def found(query: str, skills: Iterable[Skill], limit: int = 10) -> list[Skill]:
    """The skills whose name or description hold most of the words of a query, the best first."""
    words = query.lower().split()
    scored = [(score(words, one), one.name, one) for one in skills]
    best = sorted((one for one in scored if one[0]), key=lambda one: (-one[0], one[1]))
    return [one for _, _, one in best[:limit]]


def score(words: Sequence[str], one: Skill) -> int:
    name, text = one.name.lower(), about(one).lower()
    return sum(3 * (word in name) + (word in text) for word in words)


# -- what is at work


def active(entries: Iterable[Json]) -> list[tuple[str, str]]:
    """The skills that the conversation holds, by name, with their texts; the last called is last."""
    texts: dict[str, str] = {}
    for entry in entries:
        for name, text in called(entry):
            texts.pop(name, None)
            texts[name] = text
    return list(texts.items())


def called(entry: Json) -> Iterator[tuple[str, str]]:
    """The skills whose texts an entry brings: called by a person, by the model, or kept from before."""
    origin, raw, payload = (entry.get(key) for key in ("origin", "toolUseResult", "attachment"))
    if type(origin) is dict and origin.get("kind") == "skill":
        yield from _pairs([{**origin, "content": _content(entry)}])
    elif type(raw) is dict and "skill" in raw:
        content = _content(entry)
        block = content[0] if type(content) is list and content else None
        text = block.get("content") if type(block) is dict else None
        yield from _pairs([{"name": raw["skill"], "content": text}])
    elif type(payload) is dict and payload.get("type") == KEPT:
        kept = payload.get("skills")
        yield from _pairs(kept if type(kept) is list else [])


def _content(entry: Json) -> Any:
    message = entry.get("message")
    return message.get("content") if type(message) is dict else None


def _pairs(said: Iterable[Any]) -> Iterator[tuple[str, str]]:
    for one in said:
        name, text = (one.get("name"), one.get("content")) if type(one) is dict else (None, None)
        if type(name) is str and type(text) is str:
            yield name, text


def kept_facts(entries: Iterable[Json], left: Iterable[Json] = ()) -> list[Fact]:
    """What a conversation that is shortened to `left` must still know: the skills it works by, the last
    called whole, older ones as far as there is room."""
    there = {name for name, _ in active(left)}
    room = ALL_KEPT_TOKENS
    blocks: list[tuple[str, str]] = []
    for name, text in reversed([one for one in active(entries) if one[0] not in there]):
        whole = text_tokens(text)
        most = min(KEPT_TOKENS, room)
        kept = text if whole <= most else f"{text[: len(text) * most // whole]}\n[... cut here]"
        if most < 100:
            break
        room -= min(whole, most)
        blocks.append((name, kept))
    if not blocks:
        return []
    words = "\n\n".join(f"## Skill {name}\n\n{text}" for name, text in reversed(blocks))
    head = "Skills that were loaded before, and still hold:"
    payload = {
        "type": KEPT,
        "skills": [{"name": name, "content": text} for name, text in reversed(blocks)],
    }
    rendered = f"<system-reminder>\n{head}\n\n{words}\n</system-reminder>"
    return [Fact(payload=payload, rendered=(rendered,))]
