"""The interface between a bridge and the session that it connects with a server."""

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
        """Return whether a question is still open here."""
        return True

    def check(self, _: ControlRequest) -> str:
        """Return why this session refuses a request that viewers may make; empty if it does not."""
        return ""

    def tell(self, words: str) -> None:
        """Tell the user at this machine about the connection."""
        ...

    def show_act(self, _words: str) -> None:
        """Show what a viewer did."""
        return

    def lose(self) -> None:
        """Handle the server's refusal to let this machine continue the session."""
        ...
