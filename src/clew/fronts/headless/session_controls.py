"""A control request that the open session alone answers: a function of it and of the request's fields."""

from collections.abc import Awaitable, Callable
from typing import TypeAlias

from clew.core.json_object import Json
from clew.session.session import Session

SessionControl: TypeAlias = Callable[[Session, Json], Json | Awaitable[Json]]
# By the request's name.
SessionControls: TypeAlias = dict[str, SessionControl]
