"""List the available skills for the model within a token budget, and find the active ones.

The transcript shows which skills were listed before, so a resumed session lists only new ones.
"""

from collections.abc import Collection, Iterable, Iterator, Sequence
from typing import Any

from clew.agent.context.facts import Fact
from clew.core.json_object import Json, has_any
from clew.core.normalize.tokens import estimate_text_tokens
from clew.parts.skills.skill import Skill

KIND = "skill_listing"
KEPT = "invoked_skills"
BUDGET_TOKENS = 1_900
# The maximum length of a description, and the shorter one if many skills are listed.
LONG, SHORT = 400, 100
KEPT_TOKENS = 5_000
ALL_KEPT_TOKENS = 25_000

HEAD = "Skills, which you can load with the Skill tool when they fit the task:"
GONE = "Removed skills:"


def find_listed_names(entries: Iterable[Json]) -> set[str]:
    """Return the names of skills in earlier listings, including skills that were only counted."""
    names: set[str] = set()
    for entry in entries:
        payload = entry.get("attachment") if entry.get("type") == "attachment" else None
        if type(payload) is dict and payload.get("type") == KIND:
            names -= _texts(payload.get("removed"))
            names |= _texts(payload.get("skills")) | _texts(payload.get("unlisted"))
    return names


def _texts(value: Any) -> set[str]:
    return {item for item in value if type(item) is str} if type(value) is list else set()


def make_listing_fact(known_names: Collection[str], skills: Iterable[Skill]) -> Fact | None:
    """Return a fact that lists new and removed skills, or None if there are none."""
    by_name = {skill.name: skill for skill in skills}
    new = [skill for name, skill in by_name.items() if name not in known_names]
    gone = sorted(set(known_names) - set(by_name))
    if not new and not gone:
        return None
    lines, listed = told_within(new, BUDGET_TOKENS)
    unlisted = [skill.name for skill in new[listed:]]
    if unlisted:
        lines.append(f"... and {len(unlisted)} more; find them with the Skill tool's `search`.")
    parts = [HEAD, *lines] if new else []
    if gone:
        parts += [GONE, ", ".join(gone)]
    payload = {
        "type": KIND,
        "skills": [skill.name for skill in new[:listed]],
        "unlisted": unlisted,
        "removed": gone,
        # The origins of the descriptions.
        "origins": sorted({skill.origin for skill in new}),
    }
    return Fact(payload=payload, rendered=("\n".join(parts),), role="system")


def told_within(skills: Sequence[Skill], budget: int) -> tuple[list[str], int]:
    """Format skills as lines within a token budget. Return the lines and how many skills fit.

    The longest form in which all skills fit is used; if none of them fits, as many names as fit are
    listed.
    """
    lines: list[str] = []
    for form in (long_line, short_line, name_line):
        lines, used = [], 0
        for skill in skills:
            line = form(skill)
            # The estimate is for prose; skill names use more tokens per character.
            used += estimate_text_tokens(line) + 2
            if used > budget:
                break
            lines.append(line)
        else:
            return lines, len(lines)
    return lines, len(lines)


def about(skill: Skill) -> str:
    if not (skill.description and skill.when):
        return skill.description or skill.when
    return f"{skill.description.rstrip('.')}. {skill.when}"


def long_line(skill: Skill) -> str:
    return f"- {skill.name}: {cut(about(skill), LONG)}"


def short_line(skill: Skill) -> str:
    return f"- {skill.name}: {cut(about(skill), SHORT)}"


def name_line(skill: Skill) -> str:
    return f"- {skill.name}"


def cut(text: str, most: int) -> str:
    """Shorten `text`, at a word boundary if possible."""
    if len(text) <= most:
        return text
    words, _, rest = text[: most - 2].rpartition(" ")
    return f"{(words or rest[: most - 3]).rstrip()}..."


def search_skills(query: str, skills: Iterable[Skill], limit: int = 10) -> list[Skill]:
    """Return the skills whose names or descriptions match the most words of a query, best first."""
    words = query.lower().split()
    scored = [(score(words, skill), skill.name, skill) for skill in skills]
    best = sorted((entry for entry in scored if entry[0]), key=lambda entry: (-entry[0], entry[1]))
    return [skill for _, _, skill in best[:limit]]


def score(words: Sequence[str], skill: Skill) -> int:
    name, text = skill.name.lower(), about(skill).lower()
    return sum(3 * (word in name) + (word in text) for word in words)


# -- active skills


def active(entries: Iterable[Json]) -> list[tuple[str, str]]:
    """Return the name and text of each skill that was called, with the most recent call last."""
    texts: dict[str, str] = {}
    for entry in entries:
        if not has_any(entry, "origin", "toolUseResult", "attachment"):
            continue
        for name, text in called(entry):
            texts.pop(name, None)
            texts[name] = text
    return list(texts.items())


def called(entry: Json) -> Iterator[tuple[str, str]]:
    """Yield the name and text of each skill whose text an entry contains.

    Such an entry is a call by the user, a call by the model, or the skills kept after a compaction.
    """
    origin, raw, payload = (entry.get(key) for key in ("origin", "toolUseResult", "attachment"))
    if type(origin) is dict and origin.get("kind") == "skill":
        yield from _pairs([{**origin, "content": _content(entry)}])
    elif type(raw) is dict and "skill" in raw:
        content = _content(entry)
        block = content[0] if type(content) is list and content else None
        text = block.get("content") if type(block) is dict else None
        yield from _pairs([{"name": raw["skill"], "content": text}])
    elif type(payload) is dict and payload.get("type") == KEPT:
        skills = payload.get("skills")
        yield from _pairs(skills if type(skills) is list else [])


def _content(entry: Json) -> Any:
    message = entry.get("message")
    return message.get("content") if type(message) is dict else None


def _pairs(items: Iterable[Any]) -> Iterator[tuple[str, str]]:
    for item in items:
        name, text = (item.get("name"), item.get("content")) if type(item) is dict else (None, None)
        if type(name) is str and type(text) is str:
            yield name, text


def make_kept_facts(entries: Iterable[Json], left: Iterable[Json] = ()) -> list[Fact]:
    """Return a fact with the active skills in `entries` that a compaction to `left` would lose.

    Their text is shortened to fit a token budget; the skill that was called last is considered
    first.
    """
    names = {name for name, _ in active(left)}
    room = ALL_KEPT_TOKENS
    blocks: list[tuple[str, str]] = []
    for name, text in reversed([pair for pair in active(entries) if pair[0] not in names]):
        tokens = estimate_text_tokens(text)
        most = min(KEPT_TOKENS, room)
        excerpt = text if tokens <= most else f"{text[: len(text) * most // tokens]}\n[... cut off]"
        if most < 100:
            break
        room -= min(tokens, most)
        blocks.append((name, excerpt))
    if not blocks:
        return []
    words = "\n\n".join(f"## Skill {name}\n\n{text}" for name, text in reversed(blocks))
    head = "These skills were loaded earlier and still apply:"
    payload = {
        "type": KEPT,
        "skills": [{"name": name, "content": text} for name, text in reversed(blocks)],
    }
    rendered = f"<system-reminder>\n{head}\n\n{words}\n</system-reminder>"
    return [Fact(payload=payload, rendered=(rendered,))]
