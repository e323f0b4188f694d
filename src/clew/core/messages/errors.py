"""The exceptions clew raises, split by whose move it is.

    ClewError
    ├── InternalError        ours: clew broke a promise to itself; report it
    │   └── MisuseError      a caller inside clew broke a contract (fed a closed machine, ...)
    ├── OutsideError         theirs: the world did not do what was asked of it
    └── UserError            the user's: says what, where, and what to do about it
        ├── SettingsError    a settings file or variable that cannot be followed
        ├── CommandLineError arguments that do not fit together
        └── SessionError     no such session, or one that is in use elsewhere

What comes from a model, a tool, a file or a peer is a value, not an exception: malformed input is
expected. These are for what stops the work at hand.
"""


class ClewError(Exception):
    """Root of everything clew raises on purpose."""


class InternalError(ClewError):
    """Clew broke a promise to itself."""


class MisuseError(InternalError):
    """A caller inside clew broke a contract."""


class OutsideError(ClewError):
    """The world did not do what was asked of it."""


class UserError(ClewError):
    """Something the person can put right; the text says what, where and how."""


class SettingsError(UserError):
    """A setting that cannot be followed."""


class CommandLineError(UserError):
    """Arguments that do not fit together."""


class SessionError(UserError):
    """A session that is not there, or not free."""


def describe_error(error: BaseException) -> str:
    """What went wrong, for people and models: the system's words and the file, not its number."""
    if not isinstance(error, OSError) or not error.strerror:
        return str(error)
    return f"{error.filename}: {error.strerror}" if error.filename else error.strerror


def find_first_error(error: BaseException) -> BaseException:
    """What went wrong first, out of the groups that tasks wrap it in."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error
