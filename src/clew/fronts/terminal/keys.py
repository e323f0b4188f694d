"""Key bindings: the actions, their default keys, and the user's own in `keybindings.json`.

This module defines the names of actions and keys, and finds errors in the user's file: unknown
names, keys bound twice, and keys that are a prefix of other keys. The file format is described in
docs/using/keys.md. families.py contains the differences between platforms and terminals.
"""

import json
import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any, Literal, TypeAlias

from msgspec import Struct
from prompt_toolkit.keys import ALL_KEYS, Keys

from clew.fronts.terminal.families import FAMILIES, find_extra_keys, find_families
from clew.fronts.terminal.typed import ESCAPE, NEWLINE
from clew.system.command_groups import Group
from clew.system.config.paths import find_config_home

Context: TypeAlias = Literal["Global", "Chat", "Autocomplete", "Select", "Sessions"]
Chord: TypeAlias = tuple[str, ...]


class Action(Struct, frozen=True, kw_only=True):
    """An action on the screen. `keys` are its default keys, fixed if `is_fixed` is set."""

    name: str
    context: Context
    keys: tuple[str, ...]
    words: str
    is_fixed: bool = False


def action(name: str, context: Context, keys: str, words: str, *, is_fixed: bool = False) -> Action:
    """Create an action; `keys` is a comma-separated list."""
    parts = tuple(filter(None, (key.strip() for key in keys.split(","))))
    return Action(name=name, context=context, keys=parts, words=words, is_fixed=is_fixed)


ACTIONS: tuple[Action, ...] = (
    action("app:interrupt", "Global", "ctrl+c", "Interrupt; press twice to exit", is_fixed=True),
    action("app:exit", "Global", "ctrl+d", "Exit (when the prompt is empty)", is_fixed=True),
    action("app:suspend", "Global", "ctrl+z", "Suspend clew (fg to return)"),
    action("app:redraw", "Global", "ctrl+l", "Redraw the screen"),
    action(
        "app:toggleTranscript", "Global", "ctrl+o", "Show the session or collapsed output in full"
    ),
    action("app:toggleTodos", "Global", "ctrl+t", "Expand or collapse the todo list"),
    action("app:tasks", "Global", "ctrl+x ctrl+b", "Show background tasks"),
    action(
        "task:background",
        "Global",
        "ctrl+b",
        "Move the running commands and agents, or the turn, to the background",
    ),
    action("chat:cancel", "Chat", "escape", "Interrupt the turn"),
    action("chat:submit", "Chat", "enter", "Send; during a turn, send at its next step"),
    action("chat:queue", "Chat", "tab, alt+q", "During a turn, queue until it ends"),
    action("chat:newline", "Chat", "ctrl+j, alt+enter, shift+enter", "Insert a new line"),
    action("chat:cycleMode", "Chat", "shift+tab", "Switch to the next permission mode"),
    action("chat:externalEditor", "Chat", "ctrl+g, ctrl+x ctrl+e", "Edit the prompt in $EDITOR"),
    action("chat:imagePaste", "Chat", "ctrl+v", "Paste an image from the clipboard"),
    action("chat:stash", "Chat", "ctrl+s", "Stash or restore the prompt"),
    action("chat:modelPicker", "Chat", "alt+p", "Select a model"),
    action("chat:undoSummary", "Chat", "alt+u", "Undo the last compaction"),
    action("chat:keys", "Chat", "?", "Show the keys (when the prompt is empty)"),
    action("history:previous", "Chat", "up, ctrl+p", "Previous prompt"),
    action("history:next", "Chat", "down, ctrl+n", "Next prompt"),
    action("history:search", "Chat", "ctrl+r", "Search the prompt history"),
    action("autocomplete:accept", "Autocomplete", "tab", "Accept the suggestion"),
    action("autocomplete:previous", "Autocomplete", "up, ctrl+p", "Previous suggestion"),
    action("autocomplete:next", "Autocomplete", "down, ctrl+n", "Next suggestion"),
    action("autocomplete:dismiss", "Autocomplete", "escape", "Dismiss the suggestions"),
    action("select:previous", "Select", "up, ctrl+p", "Previous option"),
    action("select:next", "Select", "down, ctrl+n", "Next option"),
    action("select:tab", "Select", "tab", "Add instructions, or go to the next question or option"),
    action("select:back", "Select", "shift+tab", "Previous question or option"),
    action("select:left", "Select", "left", "Previous question"),
    action("select:right", "Select", "right", "Next question"),
    action("select:accept", "Select", "enter", "Choose the option"),
    action("select:cancel", "Select", "escape", "Cancel"),
    action("select:pageUp", "Select", "pageup", "Scroll up"),
    action("select:pageDown", "Select", "pagedown", "Scroll down"),
    action(
        "sessions:everywhere", "Sessions", "ctrl+a", "Switch between this folder and all folders"
    ),
    action("sessions:tree", "Sessions", "ctrl+t", "Show the branches of the session"),
)
BY_NAME = {action.name: action for action in ACTIONS}
CONTEXTS: tuple[Context, ...] = ("Global", "Chat", "Autocomplete", "Select", "Sessions")

PLAIN_KEYS = {
    "enter": "c-m",
    "return": "c-m",
    "tab": "c-i",
    "escape": ESCAPE.value,
    "esc": ESCAPE.value,
    "space": " ",
    "backspace": "c-h",
    "del": "delete",
    **{name: name for name in ("up", "down", "left", "right", "home", "end", "insert", "delete")},
    **{name: name for name in ("pageup", "pagedown")},
    **{f"f{number}": f"f{number}" for number in range(1, 21)},
}
MODIFIERS = {
    "ctrl": "ctrl", "control": "ctrl", "shift": "shift",
    "alt": "alt", "meta": "alt", "opt": "alt", "option": "alt",
}  # fmt: skip
# Key pairs for which terminals send the same code; the value is the name in use.
SAME_KEY = {"ctrl+m": "enter", "ctrl+i": "tab", "ctrl+h": "backspace", "ctrl+[": "escape"}


def chord(spelled: str) -> Chord | None:
    """Return prompt_toolkit's names for a key sequence, or None if no terminal can send it."""
    chord_keys: list[str] = []
    for word in spelled.split():
        keys = _key(word)
        if keys is None:
            return None
        chord_keys += keys
    return tuple(chord_keys) or None


def _key(spelled: str) -> list[str] | None:
    lowered = SAME_KEY.get(spelled.lower(), spelled.lower())
    *words, name = lowered.split("+") if len(lowered) > 1 else [lowered]
    if any(word not in MODIFIERS for word in words) or not name:
        return None
    modifiers = {MODIFIERS[word] for word in words}
    if name in ("enter", "return") and modifiers:
        return [NEWLINE.value]
    plain = PLAIN_KEYS.get(name, name if len(name) == 1 else "")
    if not plain:
        return None
    if "alt" in modifiers:
        rest = _modified(plain, modifiers - {"alt"}, name)
        return None if rest is None else [Keys.Escape.value, rest]
    key = _modified(plain, modifiers, name)
    return None if key is None else [key]


def _modified(plain: str, modifiers: set[str], name: str) -> str | None:
    if not modifiers:
        return plain
    if modifiers == {"shift"}:
        if len(name) == 1 and name.isalpha():
            return name.upper()
        return _known("s-tab" if name == "tab" else f"s-{plain}")
    return _known(f"c-s-{plain}" if "shift" in modifiers else f"c-{plain}")


def _known(key: str) -> str | None:
    return key if key in ALL_KEYS else None


class Binding(Struct, frozen=True, kw_only=True):
    """A key sequence bound to `target`: an action's name, or a line to send, such as `/cost`."""

    context: Context
    keys: Chord
    spelled: str
    target: str
    is_own: bool = False


class Bindings(Struct, frozen=True, kw_only=True):
    """The active bindings, and the errors in the user's file."""

    bound: tuple[Binding, ...]
    faults: tuple[str, ...] = ()

    def keys_of(self, name: str) -> tuple[str, ...]:
        return tuple(binding.spelled for binding in self.bound if binding.target == name)


def defaults(environ: Mapping[str, str]) -> list[Binding]:
    """Return the default bindings on this platform and terminal."""
    entries = []
    for action in ACTIONS:
        for spelled in (*find_extra_keys(environ, action.name), *action.keys):
            keys = chord(spelled)
            assert keys is not None, spelled
            entries.append(
                Binding(context=action.context, keys=keys, spelled=spelled, target=action.name)
            )
    return entries


def bindings(text: str = "", environ: Mapping[str, str] = MappingProxyType({})) -> Bindings:
    """Return the default bindings with the changes that the user's file makes.

    A file with a syntax error makes no changes. `environ` identifies the platform and the terminal.
    """
    bound: dict[tuple[Context, Chord], Binding] = {}
    for default in defaults(environ):
        bound.setdefault((default.context, default.keys), default)
    faults: list[str] = []
    own: dict[tuple[Context, Chord], str] = {}
    for context, spelled, target in _listed(text, faults):
        keys = chord(spelled)
        fault = _fault(context, spelled, keys, target, own)
        if fault or keys is None:
            faults.append(fault)
            continue
        own[context, keys] = spelled
        if target is None:
            bound.pop((context, keys), None)
        else:
            bound[context, keys] = Binding(
                context=context, keys=keys, spelled=spelled, target=target, is_own=True
            )
    entries = tuple(bound.values())
    return Bindings(bound=entries, faults=(*faults, *hidden(entries)))


def read_bindings(home: Path) -> Bindings:
    """Read the user's file and return the resulting bindings; a missing file changes nothing."""
    try:
        text = (home / "keybindings.json").read_text("utf-8")
    except (OSError, UnicodeDecodeError):
        text = ""
    return bindings(text, os.environ)


def _fault(
    context: Context,
    spelled: str,
    keys: Chord | None,
    target: str | None,
    own: dict[tuple[Context, Chord], str],
) -> str:
    """Return why a binding in the user's file is ignored; an empty string if it is valid."""
    where = f"{context}: {spelled!r}"
    if keys is None:
        return f"{where}: terminals can't send this key"
    if any(keys == chord(key) for action in ACTIONS if action.is_fixed for key in action.keys):
        return f"{where}: this key is reserved for {BY_FIXED[keys]}"
    if (context, keys) in own:
        return f"{where}: duplicate of {own[context, keys]!r}"
    if target is not None and not target.startswith("/"):
        action = BY_NAME.get(target)
        if action is None:
            return f"{where}: unknown action {target!r}"
        if action.context not in (context, "Global"):
            return f"{where}: {target} is only available in {action.context}"
    return ""


def _listed(text: str, faults: list[str]) -> Iterator[tuple[Context, str, str | None]]:
    """Yield the context, key and target of each binding. The target `command:NAME` becomes `/NAME`.

    Append errors to `faults`.
    """
    try:
        data: Any = json.loads(text) if text.strip() else {}
    except ValueError as error:
        faults.append(f"invalid JSON: {error}")
        return
    blocks = data.get("bindings") if isinstance(data, dict) else None
    if data and not isinstance(blocks, list):
        faults.append('bindings: expected an array of objects with "context" and "bindings"')
        return
    for block in blocks or ():
        context = block.get("context") if isinstance(block, dict) else None
        block_bindings = block.get("bindings") if isinstance(block, dict) else None
        if not isinstance(block_bindings, dict):
            faults.append(
                'bindings: each block must have an object "bindings" that maps keys to actions'
            )
        elif context not in CONTEXTS:
            faults.append(f"unknown context {context!r}; expected one of {', '.join(CONTEXTS)}")
        else:
            for spelled, target in block_bindings.items():
                if target is None or isinstance(target, str):
                    command = str(target).removeprefix("command:")
                    is_command = target is not None and command != target
                    yield context, spelled, f"/{command.lstrip('/')}" if is_command else target
                else:
                    faults.append(f"{context}: {spelled!r}: expected an action name or null")


def hidden(bound: Sequence[Binding]) -> list[str]:
    """Return an error for each key sequence that is a prefix of another one active with it."""
    problems = []
    for binding in bound:
        for other in bound:
            meets = binding.context == other.context or "Global" in (binding.context, other.context)
            begins = (
                len(binding.keys) < len(other.keys)
                and other.keys[: len(binding.keys)] == binding.keys
            )
            if meets and begins and (binding.is_own or other.is_own):
                problems.append(
                    f"{binding.context}: {binding.spelled!r} conflicts with {other.spelled!r} "
                    f"({other.target}), which starts with it"
                )
    return problems


BY_FIXED: dict[Chord | None, str] = {
    chord(key): action.name for action in ACTIONS if action.is_fixed for key in action.keys
}


def list_keys(bindings: Bindings, *, with_names: bool = False) -> str:
    """List all actions with their keys by context, then lines bound to keys, and errors."""
    rows: list[str] = []
    for context in CONTEXTS:
        rows.append(context)
        for action in (action for action in ACTIONS if action.context == context):
            keys = ", ".join(bindings.keys_of(action.name)) or "(no key)"
            name = f"{action.name:<22}  " if with_names else ""
            rows.append(f"  {keys:<21}  {name}{action.words}")
        lines = [
            binding
            for binding in bindings.bound
            if binding.context == context and binding.target[0] == "/"
        ]
        rows += [f"  {line.spelled:<21}  {line.target}" for line in lines]
    return "\n".join([*rows, *(f"! {fault}" for fault in bindings.faults)])


def list_families() -> str:
    """List the platforms and terminals with their reserved keys and their additional keys."""
    rows = []
    for family in FAMILIES:
        rows.append(f"{family.name}: reserves {family.kept}")
        for name, keys in family.keys.items():
            rows.append(f"  {', '.join(keys):<21}  {BY_NAME[name].words}")
    return "\n".join(rows)


# `clew keys`: lists the bindings and the errors in the user's file.


def main(argv: list[str]) -> int:
    """List the key bindings; return 1 if the user's file has errors."""
    parser = Group(
        prog="clew keys", description="List key bindings and check your keybindings.json."
    )
    parser.add_argument(
        "--terminals",
        action="store_true",
        help="List the different keys of platforms and terminals",
    )
    if parser.parse_args(argv).terminals:
        print(list_families())
        return 0
    bindings = read_bindings(find_config_home(os.environ, Path.cwd()))
    for family in find_families(os.environ):
        print(f"{family.name} reserves {family.kept}")
    print(list_keys(bindings, with_names=True))
    return 1 if bindings.faults else 0
