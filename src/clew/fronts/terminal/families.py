"""Platforms and terminals that reserve keys, and the keys to use there instead.

A key in this table comes before the default keys of its action. The default keys stay active,
because the user may have changed the terminal's own bindings.
"""

from collections.abc import Iterator, Mapping

from msgspec import Struct


class Family(Struct, frozen=True, kw_only=True):
    """A platform or a family of terminals.

    `signs` are the environment variables that identify it, each as `NAME` or `NAME=value`. `kept`
    describes the keys that do not reach clew. `keys` maps actions to additional keys.
    """

    name: str
    signs: tuple[str, ...]
    kept: str
    keys: Mapping[str, tuple[str, ...]]


FAMILIES: tuple[Family, ...] = (
    Family(
        name="Apple Terminal, iTerm2",
        signs=("TERM_PROGRAM=Apple_Terminal", "TERM_PROGRAM=iTerm.app"),
        kept="Option (by default), which types special characters",
        keys={"chat:modelPicker": ("ctrl+x p",), "chat:undoSummary": ("ctrl+x u",)},
    ),
    Family(
        name="Windows (WSL)",
        signs=("WSL_DISTRO_NAME",),
        kept="Ctrl-V, which pastes text",
        keys={"chat:imagePaste": ("alt+v",)},
    ),
    Family(
        name="tmux",
        signs=("TMUX",),
        kept="Ctrl-B, the tmux prefix",
        keys={"task:background": ("ctrl+x b",)},
    ),
    Family(
        name="GNU screen",
        signs=("STY",),
        kept="Ctrl-A, the prefix of screen",
        keys={"sessions:everywhere": ("ctrl+x a",)},
    ),
    Family(
        name="VS Code",
        signs=("TERM_PROGRAM=vscode",),
        kept="Ctrl-B, Ctrl-G, Ctrl-J and Ctrl-P, for its own views",
        keys={"task:background": ("ctrl+x b",), "chat:newline": ("alt+enter",)},
    ),
    Family(
        name="JetBrains",
        signs=("TERMINAL_EMULATOR=JetBrains-JediTerm",),
        kept="Escape (by default), which leaves the terminal",
        keys={"chat:cancel": ("ctrl+x c",)},
    ),
    Family(
        name="Linux console",
        signs=("TERM=linux",),
        kept="Shift-Tab",
        keys={"chat:cycleMode": ("ctrl+x m",), "select:back": ("ctrl+x m",)},
    ),
)


def find_families(environ: Mapping[str, str]) -> Iterator[Family]:
    """Yield the families that match the environment."""
    for family in FAMILIES:
        for sign in family.signs:
            name, _, value = sign.partition("=")
            if environ.get(name) and value in ("", environ[name]):
                yield family


def find_extra_keys(environ: Mapping[str, str], action: str) -> list[str]:
    """Return the additional keys of an action on this platform and terminal."""
    return [key for family in find_families(environ) for key in family.keys.get(action, ())]
