"""The exceptions that clew raises, grouped by the party that has to act.

    ClewError
    ├── InternalError        a bug in clew that should be reported
    │   └── MisuseError      a caller inside clew broke a contract (fed a closed parser, ...)
    ├── OutsideError         a service, program or file system failed
    └── UserError            an error that the user can fix: says what failed, where, what to do
        ├── SettingsError    an invalid settings file or environment variable
        ├── CommandLineError invalid or conflicting arguments
        └── SessionError     a session that does not exist or is in use elsewhere

Malformed input from a model, tool, file or peer is expected, so it is a value and not an exception.
These exceptions stop the current operation.
"""


class ClewError(Exception):
    """Base class of all exceptions that clew raises on purpose."""


class InternalError(ClewError):
    """A bug in clew."""


class MisuseError(InternalError):
    """A caller inside clew broke a contract."""


class OutsideError(ClewError):
    """A service, program or file system failed."""


class UserError(ClewError):
    """An error that the user can fix; the text says what failed, where and what to do."""


class SettingsError(UserError):
    """An invalid setting."""


class CommandLineError(UserError):
    """Invalid or conflicting arguments."""


class SessionError(UserError):
    """A session that does not exist or is in use."""


def describe_error(error: BaseException) -> str:
    """Return the message for users and models: the system's text and the file, without errno."""
    if not isinstance(error, OSError) or not error.strerror:
        return str(error)
    return f"{error.filename}: {error.strerror}" if error.filename else error.strerror


def format_error(error: BaseException) -> str:
    """Return the type and the message of an error in one line, without its notes."""
    from traceback import TracebackException  # Slow to import, and rarely needed.

    summary = TracebackException(type(error), error, None)
    summary.__notes__ = None
    (*_, line) = summary.format_exception_only()
    return line.strip()


def find_first_error(error: BaseException) -> BaseException:
    """Return `error`, or the first exception inside it if it is an exception group from tasks."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error
