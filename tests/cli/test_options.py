"""The table of options, and what is derived from it: parser, help, `ClewOptions`, handshake."""

from decimal import Decimal
from typing import Any

import pytest
from scripts import tables

from clew.agent.options import SECTIONS, Options, Overrides, Sdk, notes
from clew.core.messages.errors import CommandLineError
from clew.fronts.headless.handshake import apply_handshake
from clew.fronts.sdk.options import ClewOptions
from clew.providers.base import Adaptive, Off
from clew.session.flags import FlagRow, flag_rows, parse
from clew.system.config.environment import BY_FIELD
from clew.system.config.settings import BY_NAME

UUID = "6a3c5c1e-0f43-4c1c-9d3a-0d4f1f1c8a01"
SCHEMA = {"type": "object", "properties": {}}
# What is made from the rows alone, and what a program says in other words.
OF_PROGRAMS = {
    "cwd", "env", "can_use_tool", "hooks", "functions", "mcp_servers", "home", "inherit_env",
    "provider", "prepare", "compact", "session_store",
}  # fmt: skip
# One argument that each flag takes, where its choices do not give one.
ARGUMENTS = {
    "--session-id": UUID,
    "--max-budget-usd": "2.50",
    "--max-frame-bytes": "90000",
    "--json-schema": '{"type": "object", "properties": {}}',
    "--agents": '{"a": {}}',
    "--setting-sources": "user",
    "--debug": "api",
    "--prompt-suggestions": "on",
}
# What a flag needs beside it.
WITH = {
    "--fork-session": ["-c"],
    "--resume-session-at": ["-c"],
    "--resume-drops-turn": ["-c", "--resume-session-at", UUID],
    "--session-mirror": ["--verbose", "--output-format", "stream-json"],
    "--permission-prompts": ["-p", "--permission-prompt-tool", "stdio"],
}
STREAMS = ["--verbose", "--output-format=stream-json"]


def argument(row: FlagRow) -> str:
    if row.flag.choices and row.name not in ARGUMENTS:
        return row.flag.choices[-1]
    return ARGUMENTS.get(row.name, __file__ if row.name.endswith("-file") else "9000")


def test_what_is_made_from_tables_is_what_they_say() -> None:
    assert tables.stale() == [], "run: make docs"


def test_every_name_in_a_row_is_one() -> None:
    assert SECTIONS.keys() <= set(Options.__struct_fields__)
    spellings = [spelling for row in flag_rows() for spelling in row.spellings]
    assert len(spellings) == len(set(spellings))
    for field in Options.__struct_fields__:
        for below in notes(field, Overrides):
            assert not below.setting or below.setting in BY_NAME
            assert not below.variable or below.variable in BY_FIELD


@pytest.mark.parametrize("row", flag_rows(), ids=lambda row: row.name)
def test_every_flag_fills_its_field_in_each_spelling(row: FlagRow) -> None:
    beside = WITH.get(row.name, [])
    before = parse(beside)
    for spelling in row.spellings:
        words = [f"{spelling}={argument(row)}"] if row.argument else [spelling]
        needed = STREAMS if argument(row) == "stream-json" else beside
        found = parse([*needed, *words])
        assert getattr(found, row.field) != getattr(before, row.field)
        if row.argument and not row.argument.startswith("[="):
            assert parse([*needed, spelling, argument(row)]) == found
        if len(spelling) == 2 and row.argument:
            assert parse([*needed, f"{spelling}{argument(row)}"]) == found


@pytest.mark.parametrize("row", [row for row in flag_rows() if row.needs_argument], ids=lambda row: row.name)  # fmt: skip
def test_a_flag_whose_argument_is_missing_says_what_it_needs(row: FlagRow) -> None:
    for after in ([], ["--print"], ["--", "x"]):
        with pytest.raises(CommandLineError, match=f"^{row.spellings[0]} requires "):
            parse([row.spellings[0], *after])


@pytest.mark.parametrize(
    ("line", "says"),
    [
        ("--effort hihg", "--effort hihg: expected one of low, medium, high, xhigh, max (did you mean \"high\"?)"),
        ("--max-turns many", "--max-turns many: expected an integer"),
        ("--max-turns=0", "--max-turns 0: must be at least 1"),
        ("--max-thinking-tokens -1", "--max-thinking-tokens -1: must be at least 0"),
        ("--autocompact 5", "--autocompact 5: must be at least 4,000 tokens"),
        ("--print=yes", "--print accepts no argument (run clew --help for the options)"),
        ("--debug=apis", "--debug apis: expected one of api, tools, hooks, session (did you mean \"api\"?)"),
        ("--agents []", "--agents []: expected an object that maps agent names to definitions"),
        ("--agents {", "--agents {: invalid JSON: "),
        ("--json-schema none", "--json-schema none: neither JSON nor a JSON file: none: No such file"),
        ("--restricted --permission-mode bypassPermissions", "--restricted and bypassPermissions mode can't be combined"),
        ("-x", "unknown option -x"),
        ("-px", "unknown option -x"),
        ("--system-prompt a --system-prompt-file b", "--system-prompt-file b: No such file or directory"),
        (f"--system-prompt a --system-prompt-file {__file__}", "--system-prompt and --system-prompt-file can't be combined; use one of them"),
    ],
)  # fmt: skip
def test_what_an_option_cannot_be_is_said_with_its_name(line: str, says: str) -> None:
    with pytest.raises(CommandLineError) as raised:
        parse(line.split())
    assert str(raised.value).startswith(says.partition(":")[0])
    assert says in str(raised.value)


def test_words_that_are_no_flags_are_the_prompt() -> None:
    found = parse(["say", "-pn", "Title", "-", "-5", "- one thing", "", "--", "--model", "-p"])
    assert (found.prompt, found.is_print, found.name) == (
        "say - -5 - one thing --model -p",
        True,
        "Title",
    )
    assert parse(["--append-system-prompt", "-v is a flag"]).append_system_prompt == "-v is a flag"


def test_of_flags_that_overlap_one_counts() -> None:
    assert parse(["--model=a", "--model=b"]).model == "b"
    assert parse(["--add-dir=a", "--add-dir=b"]).directories == ("a", "b")
    found = parse(["--dangerously-skip-permissions", "--permission-mode=plan"])
    assert (found.mode, found.may_bypass) == ("bypassPermissions", True)
    assert parse(["--thinking=disabled", "--max-thinking-tokens=9000"]).thinking == Off()
    assert parse(["--thinking-display=omitted"]).thinking == Adaptive(display="omitted")
    found = parse(["--init-only", "--maintenance"])
    assert (found.setup, found.only_sets_up, found.is_print) == ("maintenance", True, True)
    found = parse(["--bare", "--setting-sources=user"])
    assert (found.sources, found.strict_mcp_config) == ((), True)
    found = parse(["--safe-mode"])
    assert (found.is_bare, found.sources, found.strict_mcp_config) == (True, (), True)
    found = parse(["--restricted", "--tools=Read,Bash", "--disallowedTools=Write"])
    assert (found.sources, found.deny) == ((), ("Write", "PowerShell", "Monitor", "WebFetch"))
    found = parse(["--plugin-dir-no-mcp=b", "--plugin-dir=a"])
    assert (found.plugin_folders, found.plugins_without_servers) == (("a", "b"), ("b",))
    assert parse(["--debug", "--debug-to-stderr", "--debug-file=x"]).debug == "-"
    assert parse(["-d", "api"]).debug == ""
    assert parse(["-d", "api"]).prompt == "api"


AGENTS = {"a": {"description": "Looks.", "prompt": "Look."}}
SAMPLES: dict[str, tuple[Any, Any]] = {
    "bool": (True, True),
    "int | None": (3, 3),
    "str | None": ("x", "x"),
    "Sequence[str]": (["Read", "Edit"], ("Read", "Edit")),
    "Sequence[str] | None": ([], ()),
    "Sequence[Literal['user', 'project', 'local']] | None": (["user"], ("user",)),
    "Decimal | float | None": (0.25, Decimal("0.25")),
    "Mapping[str, Json] | None": (AGENTS, AGENTS),
    "Mapping[str, Any] | None": (SCHEMA, SCHEMA),
    "Mode | None": ("plan", "plan"),
    "Effort | None": ("low", "low"),
    "Thinking | None": (Off(), Off()),
}


def test_every_option_of_programs_comes_from_the_table_and_reaches_the_session() -> None:
    shared = {s.name or f: f for f in Options.__struct_fields__ for s in notes(f, Sdk)}
    assert OF_PROGRAMS | shared.keys() == set(ClewOptions.__struct_fields__)
    usual = ClewOptions().as_options()
    # Apart from what makes it a program's session, nothing differs from an empty command line.
    said = {"is_print", "verbose", "output_format", "input_format"}
    empty = parse([])
    for field in set(Options.__struct_fields__) - said:
        assert getattr(usual, field) == getattr(empty, field)
    for line in tables.sdk_source().splitlines():
        name, _, rest = line.strip().partition(": ")
        given, meant = SAMPLES[rest.partition(" = ")[0].replace('"', "'")]
        given = False if rest.endswith("= True") else given
        meant = False if rest.endswith("= True") else meant
        if name == "session_id":
            given = meant = UUID
        resumed = {"resume": "x"} if name in ("fork_session", "resume_at") else {}
        found = ClewOptions(**{name: given}, **resumed).as_options()
        assert getattr(found, shared[name]) == meant
        assert getattr(usual, shared[name]) != meant


def test_a_host_says_in_its_handshake_what_rows_name() -> None:
    said = {
        "systemPrompt": ["One.", 2, "Two."],
        "appendSystemPrompt": "More.",
        "title": "Sums",
        "planModeInstructions": " Plan. ",
        "toolAliases": {"Shell": "Bash", "x": 1, "y": ""},
        "promptSuggestions": True,
        "systemPromptSnapshot": False,
        "forwardSubagentText": True,
        "jsonSchema": SCHEMA,
    }
    found = apply_handshake(Options(), said)
    assert (found.system_prompt, found.append_system_prompt) == ("One.\n\nTwo.", "More.")
    assert (found.name, found.planning, found.tool_aliases) == ("Sums", "Plan.", {"Shell": "Bash"})
    assert (found.suggests, found.keeps_prompt, found.agent_text) == (True, False, True)
    assert found.json_schema == SCHEMA
    # The command line stands above some of it, and what is no value is ignored.
    above = Options(name="Mine", json_schema={"type": "object"}, suggests=True, keeps_prompt=False)
    told = apply_handshake(above, said | {"promptSuggestions": False, "systemPromptSnapshot": True})
    assert (told.name, told.json_schema) == ("Mine", {"type": "object"})
    assert (told.suggests, told.keeps_prompt) == (True, False)
    assert apply_handshake(Options(resume="x"), {"title": "Sums"}).name is None
    assert apply_handshake(Options(), dict.fromkeys(said, 1)) == Options()
