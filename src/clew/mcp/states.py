"""The states of one server, and every way from one to another.

A table, so that what is missing is seen: an event that a state does not know leaves it where it is.
"""

from typing import Literal, TypeAlias, get_args

State: TypeAlias = Literal[
    "disconnected",
    "connecting",
    "initializing",
    "ready",
    "waiting",
    "needs-auth",
    "closing",
    "failed",
    "disabled",
]
Event: TypeAlias = Literal[
    "connect",  # begin, for the first time or again
    "opened",  # the transport carries messages
    "agreed",  # handshake and first lists are done
    "changed",  # the server says that a list is another one
    "refused",  # it cannot be, and trying again would not help
    "lost",  # the line is cut, or nothing came in time
    "unauthorized",
    "exhausted",  # tried often enough
    "close",
    "closed",
    "disable",
    "enable",
    "reset",
]

STATES: tuple[State, ...] = get_args(State)
EVENTS: tuple[Event, ...] = get_args(Event)

_BEGUN: tuple[State, ...] = ("connecting", "initializing", "ready")
_ENDED: tuple[State, ...] = ("disconnected", "waiting", "needs-auth", "failed")

TRANSITIONS: dict[tuple[State, Event], State] = {
    ("disconnected", "connect"): "connecting",
    ("waiting", "connect"): "connecting",
    ("connecting", "opened"): "initializing",
    ("initializing", "agreed"): "ready",
    ("ready", "changed"): "ready",
    **{(state, "refused"): "failed" for state in _BEGUN},
    **{(state, "lost"): "waiting" for state in _BEGUN},
    **{(state, "unauthorized"): "needs-auth" for state in _BEGUN},
    ("waiting", "exhausted"): "failed",
    **{(state, "close"): "closing" for state in _BEGUN},
    **{(state, "close"): "disconnected" for state in _ENDED},
    ("closing", "closed"): "disconnected",
    ("failed", "reset"): "disconnected",
    ("needs-auth", "reset"): "disconnected",
    ("waiting", "reset"): "disconnected",
    ("disconnected", "disable"): "disabled",
    ("disabled", "enable"): "disconnected",
}

# How long a state may last before it counts as lost; None: as long as it likes.
PATIENCE_S: dict[State, float | None] = {
    "disconnected": None,
    "connecting": 30.0,
    "initializing": 30.0,
    "ready": None,
    "waiting": None,
    "needs-auth": None,
    "closing": 5.0,
    "failed": None,
    "disabled": None,
}

FIRST_DELAY_S = 0.5
LONGEST_DELAY_S = 30.0
MOST_ATTEMPTS = 5
# A server that stood this long has earned its attempts back.
PROVEN_S = 60.0


def after(state: State, event: Event) -> State:
    return TRANSITIONS.get((state, event), state)


def delay_s(attempt: int, *, random: float) -> float | None:
    """How long to wait before attempt `attempt` (the first repeat is 1); None: no more of them."""
    if attempt > MOST_ATTEMPTS:
        return None
    longest: float = FIRST_DELAY_S * 2.0 ** (attempt - 1)
    return min(longest, LONGEST_DELAY_S) * (1 + random / 4)


def word(state: State) -> str:
    """The state as hosts of the SDK protocol know it."""
    match state:
        case "ready":
            return "connected"
        case "needs-auth" | "failed" | "disabled":
            return state
        case _:
            return "pending"
