"""Generate code from tables: `clew --help`, `ClewOptions`, the settings schema, and tool definitions.

`make docs` runs this module. `make docs-check` fails if generated code is out of date. With an
argument it prints a table for the docs: `python -m scripts.tables options`.
"""

import ast
import inspect
import json
import re
import sys
import textwrap
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import msgspec

from clew.agent import options as table
from clew.agent.hooks.events import EVENTS
from clew.agent.option_values import SWITCH
from clew.agent.options import SECTIONS, Flag, Options, Overrides, Sdk, notes
from clew.agent.tools.registry import make_builtin_tools, outline
from clew.cli import COMMANDS
from clew.core import frame_kinds
from clew.core.catalog.services import SERVICES
from clew.core.json_object import Json
from clew.core.messages import kinds as entry_kinds
from clew.core.messages.views import (
    CountField,
    Field,
    FlagField,
    ListField,
    NumberField,
    ObjectField,
    TextField,
    View,
)
from clew.session.flags import FlagRow, flag_rows
from clew.system.config import settings
from clew.system.config.environment import AMBIENT, BY_FIELD, VARIABLES
from clew.system.config.load import format_value
from clew.system.config.settings import SettingKey
from clew.system.sandbox.policy import SandboxSettings
from scripts import man_page

ROOT = Path(__file__).parents[1]
SRC = ROOT / "src" / "clew"
DATA = ROOT / "packaging" / "data"
MADE = re.compile(r"(?P<begin> *# (?:Made|Generated) from [^\n]*\n(?: *#[^\n]*\n)*)(?P<text>.*?)(?P<end> *# End of (?:what is made|the generated part)\.)", re.S)  # fmt: skip
WIDTH = 80
COLUMN = 29
USAGE = """\
usage: clew [OPTION ...] [PROMPT]
       clew COMMAND [ARG ...]

A coding agent for your terminal.
"""


def entry(head: str, text: str, column: int = COLUMN) -> Iterator[str]:
    """Yield the lines of one row of the help text, aligned to a column."""
    lines = textwrap.wrap(text, WIDTH - column)
    head = f"  {head}"
    if len(head) + 2 > column:
        yield head
        head = ""
    for line in lines:
        yield f"{head:<{column}}{line}"
        head = ""


def help_text() -> str:
    """Return the text of `clew --help`."""
    lines = [USAGE, "commands:"]
    for name, (_, summary) in sorted(COMMANDS.items()):
        lines += entry(name, summary, 15)
    rows = flag_rows()
    for field in Options.__struct_fields__:
        if field in SECTIONS:
            lines += ["", f"{SECTIONS[field]}:"]
        if field == "prompt":
            lines += entry("PROMPT", "First prompt; clew asks for one without it")
        for row in rows:
            if row.field == field:
                lines += entry(row.flag.spelling, meaning(row.flag))
    lines += ["", "other options:"]
    lines += entry("-h, --help", "Show this help; clew COMMAND --help shows a command's")
    lines += entry("-v, --version", "Show the version")
    return "\n".join(lines) + "\n"


def meaning(flag: Flag) -> str:
    """Return the help text of a flag with its choices."""
    if not flag.choices or flag.choices == SWITCH:
        return flag.help
    return f"{flag.help} ({', '.join(flag.choices)})"


def help_source() -> str:
    return f'HELP = """\\\n{help_text()}"""\n'


def sdk_source() -> str:
    """Return the fields of `ClewOptions` with the annotations from the table."""
    (tree,) = (
        node
        for node in ast.parse(inspect.getsource(table)).body
        if isinstance(node, ast.ClassDef) and node.name == "Options"
    )
    lines = []
    for node in tree.body:
        if not (isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name)):
            continue
        for sdk in notes(node.target.id, Sdk):
            assert isinstance(node.annotation, ast.Subscript)
            assert isinstance(node.annotation.slice, ast.Tuple)
            kind = ast.unparse(node.annotation.slice.elts[0])
            kind = re.sub(r"tuple\[(\w+), \.\.\.\]", r"Sequence[\1]", kind)
            assert node.value is not None
            default = ast.unparse(node.value)
            lines.append(f"    {sdk.name or node.target.id}: {sdk.type or kind} = {default}\n")
    return "".join(lines)


# The generated part of the docstring of `ClewOptions`.
DOCUMENTED = re.compile(r"(?<=\n) {8}continue_conversation: .*?(?=    \"\"\")", re.S)


def sdk_docs() -> str:
    """Return what the docstring of `ClewOptions` says about the options of the command line."""
    lines: list[str] = []
    for field in Options.__struct_fields__:
        for sdk in notes(field, Sdk):
            flag = next(notes(field, Flag))
            name = sdk.name or field
            words = SAID_OTHERWISE.get(name) or f"{meaning(flag)}."
            lines += textwrap.wrap(
                f"{name}: {words}", 100, initial_indent=" " * 8, subsequent_indent=" " * 12
            )
    return "".join(f"{line}\n" for line in lines)


# Options that the command line describes as switches or with its own words.
SAID_OTHERWISE = {
    "resume": "Resume a session by ID, title or file.",
    "add_dirs": "Additional working folders.",
    "persists": "Whether the session is saved.",
    "permission_mode": "The permission mode.",
    "allowed_tools": "Rules that allow tool calls, such as `Bash(git log:*)`.",
    "tools": "Built-in tools to offer; an empty list for none.",
    "settings": "Extra settings, as JSON or a file; only managed settings override them.",
    "setting_sources": "Where settings, memory, skills and servers are read from; an empty list for "
    "nowhere.",
    "strict_mcp_config": "Use only the servers in `mcp_servers`.",
    "plugin_dirs": "Plugins to load and trust for this session.",
    "agents": "Agents by name, with their description, prompt, tools and so on.",
    "thinking": "`clew.Adaptive`, `clew.ThinkingBudget` or `clew.Off`.",
}


# The JSON Schema of each kind of setting.
TEXT: Json = {"type": "string"}
MORE_THAN_0: Json = {"type": "number", "exclusiveMinimum": 0}
KINDS: dict[str, Json] = {
    settings.STRING: TEXT,
    settings.BOOLEAN: {"type": "boolean"},
    settings.WHOLE: {"type": "integer"},
    settings.NUMBER: {"type": "number", "minimum": 0},
    settings.OBJECT: {"type": "object"},
    settings.LIST: {"type": "array"},
    settings.STRINGS: {"type": "array", "items": TEXT},
    settings.RULES: {"type": "array", "items": TEXT},
    settings.TEXTS: {
        "type": "object",
        "additionalProperties": {"type": ["string", "number", "boolean"]},
    },
    settings.NUMBERS: {"type": "object", "additionalProperties": MORE_THAN_0},
    settings.NUMBER_OR_NUMBERS: {
        "anyOf": [MORE_THAN_0, {"type": "object", "additionalProperties": MORE_THAN_0}]
    },
}


def setting_schema(known: SettingKey) -> Json:
    """Return the JSON Schema of one setting."""
    found: Json = {"description": f"{known.meaning}{''.join(f' ({n})' for n in limits(known))}"}
    found |= KINDS[known.kind]
    if known.choices:
        found["enum"] = list(known.choices)
    if known.default is not None:
        found["default"] = known.default
    inner = [k for k in settings.KEYS if k.name.startswith(f"{known.name}.")]
    if inner:
        found["properties"] = {k.name.rpartition(".")[2]: setting_schema(k) for k in inner}
    if known.name == "sandbox":
        found |= sandbox_schema()
    if known.name == "hooks":
        found["properties"] = {
            event.name: {"type": "array", "items": {"type": "object"}} for event in EVENTS
        }
    return found


def sandbox_schema() -> Json:
    """Return the schema of the `sandbox` object, from the type that the sandbox reads."""
    (found,), named = msgspec.json.schema_components([SandboxSettings], ref_template="{name}")

    def whole(part: Any) -> Any:
        if isinstance(part, list):
            return [whole(each) for each in part]
        if not isinstance(part, dict):
            return part
        if "$ref" in part:
            return whole(named[part["$ref"]])
        left_out = ("title", "required", "default", "description")
        return {k: whole(v) for k, v in part.items() if k not in left_out}

    return dict(whole(found))


def limits(known: SettingKey) -> Iterator[str]:
    """Yield the restrictions of a setting."""
    if known.executes:
        yield "not from an untrusted folder"
    if known.managed_only:
        yield "managed settings only"
    if not known.has_effect:
        yield f"not supported: {known.unsupported}"


def schema_source() -> str:
    """Return the JSON Schema of settings files. It allows unknown keys, because clew keeps them."""
    schema = {
        "$schema": "http://json-schema.org/draft-07/schema#",
        "title": "Settings of clew",
        "type": "object",
        "properties": {k.name: setting_schema(k) for k in settings.KEYS if "." not in k.name},
    }
    return json.dumps(schema, indent=1, ensure_ascii=False) + "\n"


def transcript_source() -> str:
    """Return the JSON Schema of transcript lines, from the fields of their views.

    It allows further fields and unknown kinds, because clew preserves them.
    """
    written = {
        tag: kind for tag, kind in entry_kinds.KINDS.items() if kind.place != entry_kinds.LIVE
    }
    schema = {
        "$schema": "http://json-schema.org/draft-07/schema#",
        "title": "A line of a clew transcript",
        "type": "object",
        "properties": {"type": {"type": "string"}},
        "required": ["type"],
        "allOf": [
            {
                "if": {"properties": {"type": {"const": tag}}},
                "then": {
                    "description": cut_docstring(kind.view),
                    "properties": dict(view_properties(kind.view)),
                },
            }
            for tag, kind in written.items()
        ],
    }
    return json.dumps(schema, indent=1, ensure_ascii=False) + "\n"


def frames_source() -> str:
    """Return the JSON Schema of the frames that clew writes to hosts."""
    return json.dumps(frame_kinds.make_schema(), indent=1, ensure_ascii=False) + "\n"


def cut_docstring(view: type[View]) -> str:
    return (view.__doc__ or "").strip().split("\n\n")[0]


def view_properties(view: type[View]) -> Iterator[tuple[str, Json]]:
    """Yield the members that a view reads, with their types; any may be null."""
    inner: dict[str, dict[str, Json]] = {}
    for base in reversed(view.__mro__):
        for field in vars(base).values():
            if not isinstance(field, Field):
                continue
            kinds = next((kinds for of, kinds in JSON_TYPES.items() if isinstance(field, of)), None)
            member: Json = {} if kinds is None else {"type": [kinds, "null"]}
            if field.inside is None:
                yield field.key, member
            else:
                inner.setdefault(field.inside, {})[field.key] = member
    for key, members in inner.items():
        yield key, {"properties": members}


def tools_source() -> str:
    """Return the definitions of the built-in tools, which sessions use before they load the code."""
    return json.dumps(list(map(outline, make_builtin_tools())), indent=1, ensure_ascii=False) + "\n"


JSON_TYPES: dict[type[Field], str] = {
    TextField: "string",
    FlagField: "boolean",
    CountField: "integer",
    NumberField: "number",
    ObjectField: "object",
    ListField: "array",
}
SCHEMA = "system/config/settings.schema.json"
TRANSCRIPT = "core/messages/transcript.schema.json"
FRAMES = "core/host_frames.schema.json"
OUTLINES = "agent/tools/builtin_tools.json"
SOURCES: dict[str, Callable[[], str]] = {
    "cli.py": help_source,
    "fronts/sdk/options.py": sdk_source,
    SCHEMA: schema_source,
    TRANSCRIPT: transcript_source,
    FRAMES: frames_source,
    OUTLINES: tools_source,
}


def current(name: str) -> str:
    """Return a source file with its generated part up to date."""
    if name in (SCHEMA, TRANSCRIPT, FRAMES, OUTLINES):
        return SOURCES[name]()
    text = (SRC / name).read_text("utf-8")
    (made,) = MADE.finditer(text)
    text = text[: made.start("text")] + SOURCES[name]() + text[made.end("text") :]
    return DOCUMENTED.sub(sdk_docs(), text) if name == "fronts/sdk/options.py" else text


def generate_files() -> Iterator[tuple[Path, str]]:
    """Yield the files that have generated parts, with their current text."""
    for name in SOURCES:
        yield SRC / name, current(name)
    for name, make in man_page.FILES_BY_PATH.items():
        yield DATA / name, make()


def stale() -> list[Path]:
    """Return the files whose generated part is missing or out of date."""
    return [
        path.relative_to(ROOT)
        for path, text in generate_files()
        if not path.exists() or path.read_text("utf-8") != text
    ]


def write() -> None:
    for path, text in generate_files():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, "utf-8")


def cell(words: str) -> str:
    return words.replace("|", "\\|")


def option_lines() -> Iterator[str]:
    """Yield the table of docs/using/options.md."""
    yield "| flag | meaning | above the setting or variable | in `ClewOptions` |"
    yield "| --- | --- | --- | --- |"
    yield from map(option_line, flag_rows())


def option_line(row: FlagRow) -> str:
    below = ""
    for found in notes(row.field, Overrides):
        variable = BY_FIELD[found.variable].names[0] if found.variable else ""
        below = ", ".join(f"`{each}`" for each in (found.setting, variable) if each)
    name = "".join(f"`{sdk.name or row.field}`" for sdk in notes(row.field, Sdk))
    return f"| `{cell(row.flag.spelling)}` | {cell(meaning(row.flag))} | {below} | {name} |"


def setting_lines() -> Iterator[str]:
    """Yield the table of settings in docs/using/settings.md."""
    yield "| key | value | meaning | default | a change counts |"
    yield "| --- | --- | --- | --- | --- |"
    for known in settings.KEYS:
        kind = ", ".join(f"`{choice}`" for choice in known.choices) or known.kind
        default = "" if known.default is None else f"`{format_value(known.default)}`"
        meaning = f"{known.meaning}{''.join(f'; *{limit}*' for limit in limits(known))}"
        counts = "at once" if known.is_live else "" if not known.has_effect else "next session"
        yield f"| `{known.name}` | {kind} | {cell(meaning)} | {default} | {counts} |"


def variable_lines() -> Iterator[str]:
    """Yield the table of environment variables in docs/using/settings.md."""
    yield "| variable | value | meaning | default |"
    yield "| --- | --- | --- | --- |"
    for known in (*VARIABLES, *AMBIENT):
        names = ", ".join(f"`{name}`" for name in known.names)
        default = "" if known.default is None else f"`{known.default}`"
        yield f"| {names} | {known.kind} | {cell(known.meaning)} | {default} |"


def service_lines() -> Iterator[str]:
    """Yield the table of services in docs/extending/providers.md."""
    yield "| name | service | API | key | default model |"
    yield "| --- | --- | --- | --- | --- |"
    for row in SERVICES:
        names = (*row.key_variables, *(name for names in row.fills.values() for name in names))
        variables = ", ".join(f"`{name}`" for name in names)
        title = f"{row.title}, port {row.port}" if row.is_local else row.title
        model = f"`{row.model}`" if row.model else "the first one"
        yield f"| `{row.name}` | {title} | {row.wire} | {variables or 'none'} | {model} |"


def frame_lines() -> Iterator[str]:
    """Yield the table of docs/extending/stream-json.md."""
    yield "| frame | meaning | required members |"
    yield "| --- | --- | --- |"
    for kind in frame_kinds.FRAMES:
        name = "/".join(filter(None, (kind.type, kind.subtype)))
        members = ", ".join(f"`{member}`" for member in kind.members)
        yield f"| `{name}` | {cell(kind.meaning)} | {members} |"


TABLES = {
    "frames": frame_lines,
    "services": service_lines,
    "variables": variable_lines,
    "options": option_lines,
    "settings": setting_lines,
}


def main() -> int:
    if sys.argv[1:] in [[name] for name in TABLES]:
        sys.stdout.writelines(f"{line}\n" for line in TABLES[sys.argv[1]]())
        return 0
    write()
    return 0


if __name__ == "__main__":
    sys.exit(main())
