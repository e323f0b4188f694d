"""The interface of a session to the bridge that connects it to a server."""

from typing import Protocol

from clew.core.wire import ControlRequest, Incoming
from clew.session.session import Session


class BridgeEnd(Protocol):
    """The session's end of a bridge."""

    @property
    def session(self) -> Session: ...

    def take(self, incoming: Incoming) -> None:
        """Pass a viewer's message to the session."""
        ...

    def awaits(self, _request_id: str) -> bool:
        """Return whether the session still waits for an answer to a question."""
        return True

    def check(self, _: ControlRequest) -> str:
        """Return why this session refuses a request that viewers may make; empty if allowed."""
        return ""

    def tell(self, words: str) -> None:
        """Tell the user at this machine about the connection."""
        ...

    def show_act(self, _words: str) -> None:
        """Show the user at this machine what a viewer did."""
        return

    def lose(self) -> None:
        """Handle the server's refusal to let this machine continue to run the session."""
        ...
