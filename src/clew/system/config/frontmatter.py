"""The front matter of a Markdown file (the fields between two `---` lines) and its body.

Commands, skills, agents, output styles and rules begin with front matter. It is YAML, but authors
write it as plain lines, so each field is parsed separately. A value on one line is used literally
(`argument-hint: [file]`, a description that contains a colon). Only a value that spans several
lines, or that is an object, is parsed as YAML. A field that cannot be parsed is left out and
reported; the others remain valid.

Does no I/O. YAML is imported only when a file needs it, because the import costs more than parsing
a thousand files with plain front matter.
"""

import json
import re
from typing import Any

from msgspec import Struct

from clew.core.regex import lazy_pattern

NOT_CLOSED = "the front matter has no closing ---"

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
    """An error in the front matter and its line number in the file."""

    line: int
    what: str

    def __str__(self) -> str:
        return f"{self.line}: {self.what}"


class Frontmatter(Struct, frozen=True, kw_only=True):
    """The fields of the front matter, the body below it, and the errors found.

    A value is a string, or the parsed YAML of a field that spans several lines.
    """

    values: dict[str, Any]
    body: str
    faults: tuple[FrontmatterFault, ...] = ()

    def text(self, name: str) -> str:
        """Return a field as text, with a list joined by commas. A missing field is empty."""
        value = self.values.get(name)
        if isinstance(value, list):
            return ", ".join(_said(item) for item in value)
        return "" if value is None or isinstance(value, dict) else _said(value)

    def texts(self, name: str) -> tuple[str, ...]:
        """Return a field as a list of strings.

        A single line and the items of a list are split at commas outside brackets.
        """
        value = self.values.get(name)
        texts = map(_said, value) if isinstance(value, list) else (self.text(name),)
        return tuple(part for text in texts for part in _parted(text))

    def flag(self, name: str) -> bool | None:
        """Return a Boolean field, or None if it is missing or not a Boolean."""
        return WORDS.get(self.text(name).lower())

    def number(self, name: str) -> int | None:
        """Return a non-negative integer field, or None if it is missing or has another type."""
        text = self.text(name)
        return int(text) if text.isascii() and text.isdigit() and len(text) < 16 else None


def _said(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    return "" if text in NOTHING else text


def _parted(text: str) -> list[str]:
    """Split a string at its commas, except inside brackets.

    Brackets around the entire string are ignored.
    """
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
    """Parse a file into front matter and body. A file without front matter is all body."""
    text = text.removeprefix("\ufeff")
    if "\r" in text:
        text = text.replace("\r\n", "\n")
    mark = MARK.match(text)
    if mark is None:
        return Frontmatter(values={}, body=text)
    end = END.search(text, mark.end(), mark.end() + MAX_HEAD_CHARACTERS)
    if end is None:
        is_long = len(text) > mark.end() + MAX_HEAD_CHARACTERS
        what = (
            f"the front matter is longer than {MAX_HEAD_CHARACTERS:,} characters"
            if is_long
            else NOT_CLOSED
        )
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
                FrontmatterFault(
                    line=number, what=f"{name} is defined more than once; the last value is used"
                )
            )
        try:
            values[name] = _value(chunk)
        except ValueError as error:
            faults.append(FrontmatterFault(line=number, what=f"{name}: {error}"))
    return values, faults


def _chunks(lines: list[str], faults: list[FrontmatterFault]) -> list[tuple[int, str, list[str]]]:
    """Return each field's line number, name and lines. The name is removed from the first line."""
    chunks: list[tuple[int, str, list[str]]] = []
    for number, line in enumerate(lines, start=2):
        member = MEMBER.match(line)
        if member is not None:
            chunks.append((number, member[1], [(member[2] or "").strip()]))
        elif chunks and (line[:1].isspace() or line.startswith("-") or not line):
            chunks[-1][2].append(line)
        elif line.strip() and not line.startswith("#"):
            faults.append(
                FrontmatterFault(line=number, what=f"expected NAME: VALUE, got {line[:40]!r}")
            )
    return chunks


def _value(chunk: list[str]) -> Any:
    first, lines = chunk[0], [line for line in chunk[1:] if line.strip()]
    if not lines:
        return _in_a_line(first)
    try:
        return _yaml("\n".join(["-" if not first else f"- {first}", *map(_deeper, chunk[1:])]))[0]
    except ValueError:
        # Plain text over several lines that contains characters with a meaning in YAML.
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
    """Return a YAML value as JSON would represent it. Raise ValueError if that is not possible."""
    import yaml

    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    try:
        depth = 0
        for event in yaml.parse(text, loader):
            depth += isinstance(event, yaml.CollectionStartEvent)
            depth -= isinstance(event, yaml.CollectionEndEvent)
            if depth > MAX_DEPTH:
                raise ValueError("nested too deeply")
            if isinstance(event, yaml.AliasEvent):
                raise ValueError("YAML aliases (*NAME) are not supported")
            # PyYAML has no error message for a value that does not match its tag.
            tag = getattr(event, "tag", None)
            if tag not in (None, "!"):
                raise ValueError(f"the YAML tag {tag} is not supported")
        return json.loads(json.dumps(yaml.load(text, loader)))
    except yaml.MarkedYAMLError as error:
        raise ValueError(error.problem or "not YAML") from None
    except yaml.YAMLError as error:
        raise ValueError(str(error).split("\n")[0]) from None
    except TypeError:
        raise ValueError(
            "dates and other values that JSON cannot represent must be in quotes"
        ) from None
