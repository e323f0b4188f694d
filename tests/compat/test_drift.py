"""What the published Agent SDKs know, compared with clew's tables.

`published.tsv` names every frame, control request, option, setting and hook event of the versions
that the tests pin. When a pin is raised, these tests name what is new or gone, and the table says
what clew does with it.
"""

import dataclasses
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest
from claude_agent_sdk import ClaudeAgentOptions

from clew.agent.hooks.events import EVENTS
from clew.agent.options import Flag, HostMember, Options, notes
from clew.core.frame_kinds import FRAMES, FrameKind
from clew.core.wire import COMPATIBLE_VERSION
from clew.fronts.headless.controls import find_handler
from clew.system.config.settings import BY_NAME
from tests.compat.programs import PROGRAMS, folder_of, install

Row = tuple[str, str, str]
TYPESCRIPT = "@anthropic-ai/claude-agent-sdk"
TABLE = Path(__file__).with_name("published.tsv")
# Requests of clew to the host, and members of the handshake that are no options.
ASKED = {"can_use_tool", "elicitation", "hook_callback"}
READ = {"hooks", "sdkMcpServers", "agents", "skills"}
FLAGS = {
    word
    for field in Options.__struct_fields__
    for flag in notes(field, Flag)
    for word in re.findall(r"--[\w-]+", flag.spelling)
}
HOST_MEMBERS = READ | {
    member.name for field in Options.__struct_fields__ for member in notes(field, HostMember)
}
# Required of a replayed prompt only, which has no kind of its own.
WITHOUT = {("user", "isReplay")}


@cache
def rows() -> list[Row]:
    lines = TABLE.read_text("utf-8").splitlines()
    split = [line.split("\t") for line in lines if not line.startswith("#")]
    return [(kind, name, state) for kind, name, state in split]


def names(*kinds: str) -> list[str]:
    return sorted(f"{kind} {name}" for kind, name, _ in rows() if kind in kinds)


def is_known(kind: str, name: str) -> bool:
    match kind:
        case "frame":
            return name in {name_of(frame) for frame in FRAMES}
        case "control":
            return name in ASKED or find_handler(name) is not None
        case "initialize":
            return name in HOST_MEMBERS
        case "setting":
            return name in BY_NAME
        case _:
            return name in {event.name for event in EVENTS}


def name_of(frame: FrameKind) -> str:
    return f"{frame.type}/{frame.subtype}".rstrip("/")


def is_right(kind: str, name: str, state: str) -> bool:
    if kind not in ("option", "python"):
        return (state == "yes") == is_known(kind, name)
    how, _, flag = state.partition(" ")
    return flag in FLAGS if how == "flag" else how != "control" or is_known("control", flag)


def test_clew_has_what_the_table_says() -> None:
    assert [row for row in rows() if not is_right(*row)] == []


def test_clew_names_the_version_that_was_compared() -> None:
    major, _, patch = PROGRAMS[TYPESCRIPT].version.rpartition(".")
    assert major == "0.3"
    assert f"2.1.{patch}" == COMPATIBLE_VERSION


def test_the_table_has_every_option_of_the_python_sdk() -> None:
    fields = [f"python {field.name}" for field in dataclasses.fields(ClaudeAgentOptions)]
    assert sorted(fields) == names("python")


# -- the types of the TypeScript SDK


class PublishedTypes:
    """The declarations in a `.d.ts` file, as far as they are compared."""

    def __init__(self, text: str) -> None:
        self._text = re.sub(r"/\*.*?\*/", "", text, flags=re.S)

    def body(self, name: str) -> str:
        begin = re.search(
            rf"^(?:export )?declare (?:type|interface) {name}\b[^{{;]*{{", self._text, re.M
        )
        assert begin is not None, f"{name} is not in the types any more"
        depth, end = 1, begin.end()
        while depth:
            depth += {"{": 1, "}": -1}.get(self._text[end], 0)
            end += 1
        return self._text[begin.end() : end - 1]

    def union(self, name: str) -> list[str]:
        found = re.search(rf"declare type {name} = ([^;{{]*);", self._text)
        assert found is not None, f"{name} is not in the types any more"
        return [part.rpartition(".")[2] for part in re.findall(r"[\w.]+", found[1])]

    def members(self, name: str) -> dict[str, bool]:
        """The members of a type, and whether they are required."""
        members, depth = dict[str, bool](), 0
        for line in self.body(name).splitlines():
            if depth == 0 and (found := re.match(r"\s*'?([\w$-]+)'?(\??):", line)):
                members[found[1]] = not found[2]
            depth += sum(line.count(sign) for sign in "{([") - sum(map(line.count, "})]"))
        return members

    def literals(self, name: str, member: str) -> list[str]:
        found = re.search(rf"^    {member}: ([^;]+);", self.body(name), re.M)
        return re.findall(r"'(\w+)'", found[1]) if found else [""]

    def frames(self) -> Iterator[tuple[str, str]]:
        """The kinds of frames, and the types that declare them."""
        for outer in self.union("SDKMessage"):
            parts = self.union(outer) if outer == "SDKResultMessage" else [outer]
            for part in parts:
                for kind in self.literals(part, "type"):
                    for subtype in self.literals(part, "subtype"):
                        yield f"{kind}/{subtype}".rstrip("/"), part

    def events(self) -> list[str]:
        found = re.search(r"HOOK_EVENTS: readonly \[(.*?)\]", self._text)
        assert found is not None
        return re.findall(r"'(\w+)'", found[1])

    def all(self) -> Iterator[str]:
        yield from {f"frame {kind}" for kind, _ in self.frames()}
        for request in self.union("SDKControlRequestInner"):
            yield from (f"control {name}" for name in self.literals(request, "subtype"))
        handshake = self.members("SDKControlInitializeRequest").keys() - {"subtype"}
        yield from (f"initialize {name}" for name in handshake)
        yield from (f"option {name}" for name in self.members("Options"))
        yield from (f"setting {name}" for name in self.members("Settings"))
        yield from (f"hook {name}" for name in self.events())


@pytest.fixture(scope="module")
def published() -> PublishedTypes:
    install(TYPESCRIPT)
    package = folder_of(TYPESCRIPT) / "node_modules" / TYPESCRIPT
    return PublishedTypes((package / "sdk.d.ts").read_text("utf-8"))


@pytest.mark.e2e
def test_the_table_has_every_name_of_the_typescript_sdk(published: PublishedTypes) -> None:
    kinds = ("frame", "control", "initialize", "option", "setting", "hook")
    found = set(published.all())
    assert sorted(found - set(names(*kinds))) == [], "new in the SDK"
    assert sorted(set(names(*kinds)) - found) == [], "gone from the SDK"


@pytest.mark.e2e
def test_frames_have_the_members_that_the_typescript_sdk_requires(
    published: PublishedTypes,
) -> None:
    known = {name_of(frame): frame.members.keys() for frame in FRAMES}
    missing = {
        (kind, member)
        for kind, declared in published.frames()
        if kind in known
        for member, is_required in published.members(declared).items()
        if is_required and member not in ("type", "subtype") and member not in known[kind]
    }
    assert missing == WITHOUT
