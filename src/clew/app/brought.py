"""What the program around a session brings into it: functions of its own at the session's events."""

from collections.abc import Sequence

from msgspec import Struct

from clew.hooks.handlers import Hook


class Brought(Struct, frozen=True, kw_only=True):
    """`hooks` run like those of the settings, from the session's first event on."""

    hooks: Sequence[Hook] = ()


NOTHING = Brought()
