"""The head of a markdown file: what stands between two lines of `---`, by name, and the text below.

Commands, skills, agents, output styles and rules begin with one. It is YAML that people write as if it
were plain lines, so it is read a member at a time: what fits on one line is taken as it stands
(`argument-hint: [file]`, a description with a colon), and only what goes over several lines, or is an
object, is YAML. A member that cannot be read is left out and named; the others count.

Pure. YAML is imported when a head needs it, for it costs more than a thousand plain heads.
"""

import json
import re
from typing import Any

from msgspec import Struct

from clew.core.regex import lazy_pattern

MARK = lazy_pattern(r"---[ \t]*\n")
END = lazy_pattern(r"^---[ \t]*(?:\n|\Z)", re.M)
MEMBER = lazy_pattern(r"([A-Za-z_$][\w.$-]*)[ \t]*:(?:[ \t]+(.*))?\Z")
COMMENT = lazy_pattern(r"(?:\A|[ \t])#(?: .*)?\Z")
QUOTED = lazy_pattern(r"""(?:"([^"\\]*)"|'([^']*)')[ \t]*(?:#.*)?\Z""")
SEPARATORS = lazy_pattern(r"[^,()\[\]{}]+|.", re.S)
MAX_HEAD_CHARACTERS = 64 * 1024
MAX_DEPTH = 30
WORDS = {"true": True, "yes": True, "on": True, "false": False, "no": False, "off": False}
NOTHING = ("", "~", "null")


class FrontmatterFault(Struct, frozen=True, kw_only=True):
    """One thing a head says wrongly, and the line of the file it stands on."""

    line: int
    what: str

    def __str__(self) -> str:
        return f"{self.line}: {self.what}"


class Frontmatter(Struct, frozen=True, kw_only=True):
    """The members of a head, the text below it, and what was wrong.

    A value is a text, or what YAML says of a member that goes over several lines.
    """

    values: dict[str, Any]
    body: str
    faults: tuple[FrontmatterFault, ...] = ()

    def text(self, name: str) -> str:
        """One text; of a list its members with commas between; empty where there is none."""
        value = self.values.get(name)
        if isinstance(value, list):
            return ", ".join(_said(item) for item in value)
        return "" if value is None or isinstance(value, dict) else _said(value)

    def texts(self, name: str) -> tuple[str, ...]:
        """Several texts: a list, or words with commas between them outside of brackets."""
        value = self.values.get(name)
        if isinstance(value, list):
            return tuple(text for item in value if (text := _said(item)))
        return tuple(_parted(text)) if (text := self.text(name)) else ()

    def flag(self, name: str) -> bool | None:
        """Yes or no; None where the head says neither."""
        return WORDS.get(self.text(name).lower())

    def number(self, name: str) -> int | None:
        """A whole number of 0 or more; None where the head says none."""
        text = self.text(name)
        return int(text) if text.isascii() and text.isdigit() and len(text) < 16 else None


def _said(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    return "" if text in NOTHING else text


def _parted(text: str) -> list[str]:
    """The parts between commas; `[...]` around all of it says the same as none."""
    if text.startswith("[") and text.endswith("]"):
        text = text[1:-1]
    parts, depth = [""], 0
    for piece in SEPARATORS.findall(text):
        depth += piece in "([{"
        depth -= piece in ")]}" and depth > 0
        if piece == "," and not depth:
            parts.append("")
        else:
            parts[-1] += piece
    return [part_text for part in parts if (part_text := part.strip().strip("'\""))]


def read(text: str) -> Frontmatter:
    """A file's head and body; a text without a head is a body alone."""
    text = text.removeprefix("\ufeff")
    if "\r" in text:
        text = text.replace("\r\n", "\n")
    mark = MARK.match(text)
    if mark is None:
        return Frontmatter(values={}, body=text)
    end = END.search(text, mark.end(), mark.end() + MAX_HEAD_CHARACTERS)
    if end is None:
        is_long = len(text) > mark.end() + MAX_HEAD_CHARACTERS
        what = "the head is too long" if is_long else "no --- ends the head"
        return Frontmatter(values={}, body=text, faults=(FrontmatterFault(line=1, what=what),))
    values, faults = _members(text[mark.end() : end.start()].split("\n")[:-1])
    faults.sort(key=lambda fault: fault.line)
    return Frontmatter(values=values, body=text[end.end() :], faults=tuple(faults))


def _members(lines: list[str]) -> tuple[dict[str, Any], list[FrontmatterFault]]:
    values: dict[str, Any] = {}
    faults: list[FrontmatterFault] = []
    for number, name, chunk in _chunks(lines, faults):
        if name in values:
            faults.append(
                FrontmatterFault(line=number, what=f"{name} stands here again; the last one counts")
            )
        try:
            values[name] = _value(chunk)
        except ValueError as error:
            faults.append(FrontmatterFault(line=number, what=f"{name}: {error}"))
    return values, faults


def _chunks(lines: list[str], faults: list[FrontmatterFault]) -> list[tuple[int, str, list[str]]]:
    """Each member with its line, its name and its lines: the rest of its first, and all that go on."""
    chunks: list[tuple[int, str, list[str]]] = []
    for number, line in enumerate(lines, start=2):
        member = MEMBER.match(line)
        if member is not None:
            chunks.append((number, member[1], [(member[2] or "").strip()]))
        elif chunks and (line[:1].isspace() or line.startswith("-") or not line):
            chunks[-1][2].append(line)
        elif line.strip() and not line.startswith("#"):
            faults.append(
                FrontmatterFault(line=number, what=f"expected NAME: VALUE, found {line[:40]!r}")
            )
    return chunks


def _value(chunk: list[str]) -> Any:
    first, lines = chunk[0], [line for line in chunk[1:] if line.strip()]
    if not lines:
        return _in_a_line(first)
    try:
        return _yaml("\n".join(["-" if not first else f"- {first}", *map(_deeper, chunk[1:])]))[0]
    except ValueError:
        # Words that go on over lines, with something in them that YAML takes for its own.
        if not first or first[0] in "|>[{\"'":
            raise
        return " ".join([first, *(line.strip() for line in lines)])


def _deeper(line: str) -> str:
    return f" {line}" if line.strip() else ""


def _in_a_line(text: str) -> Any:
    quoted = QUOTED.match(text)
    if quoted is not None:
        return quoted[1] if quoted[1] is not None else quoted[2]
    if text[:1] in ('"', "'", "{") or (text.startswith("[") and "{" in text):
        try:
            return _yaml(text)
        except ValueError:
            return text
    return COMMENT.sub("", text).strip()


def _yaml(text: str) -> Any:
    """The value of a piece of YAML as JSON has it; raises ValueError with what is wrong."""
    import yaml

    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    try:
        depth = 0
        for event in yaml.parse(text, loader):
            depth += isinstance(event, yaml.CollectionStartEvent)
            depth -= isinstance(event, yaml.CollectionEndEvent)
            if depth > MAX_DEPTH:
                raise ValueError("nested too deep")
            if isinstance(event, yaml.AliasEvent):
                raise ValueError("*NAME, which stands for another value, is not taken")
            # PyYAML has no words for a value that is not of the kind it is marked with.
            tag = getattr(event, "tag", None)
            if tag not in (None, "!"):
                raise ValueError(f"{tag}, the mark of a kind, is not taken")
        return json.loads(json.dumps(yaml.load(text, loader)))
    except yaml.MarkedYAMLError as error:
        raise ValueError(error.problem or "not YAML") from None
    except yaml.YAMLError as error:
        raise ValueError(str(error).split("\n")[0]) from None
    except TypeError:
        raise ValueError("a date, or another value that JSON has not; quotes help") from None
