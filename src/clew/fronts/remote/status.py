"""The state of a bridge's connection, and the messages about it for the user and the transcript."""

from clew.core.messages import factories
from clew.fronts.remote.end import BridgeEnd
from clew.fronts.remote.service import session_path
from clew.system.clock import get_timestamp, make_id


class LinkStatus:
    """The connection's state: whether the server can be reached or has rejected this machine."""

    def __init__(self, url: str, session_id: str, end: BridgeEnd) -> None:
        self.url = url
        self._session_id = session_id
        self._end = end
        self.is_connected = self.is_refused = False
        self._had_link = self._is_told = False

    @property
    def address(self) -> str:
        """The command that opens the session on another machine."""
        return f"clew attach --server {self.url} {self._session_id}"

    def change(self, *, is_up: bool, words: str) -> None:
        """Note a success or failure. Report only changes to the user and in the transcript."""
        if not is_up and not self._is_told:
            self._end.tell(f"{words}; reconnecting")
        self._is_told = not is_up
        if is_up == self.is_connected:
            return
        self.is_connected = is_up
        if not is_up:
            self.note("lost", words)
            return
        self.note("resumed" if self._had_link else "made", words)
        if self._had_link:
            self._end.tell("connected again")
        else:
            # Viewers can find the session only from now on.
            self._end.tell(f"session {self._session_id} at {self.url}; follow it with:")
            self._end.tell(f"  {self.address}")
        self._had_link = True

    def refuse(self, words: str) -> None:
        """Note that the server does not let this machine continue to run the session."""
        self.note("refused", words)
        self._end.tell(words)
        self.is_connected, self.is_refused = False, True

    def note(self, status: str, words: str) -> None:
        """Record the connection's state in the transcript."""
        entry = factories.make_system(
            "bridge_status",
            f"Remote session: {words}",
            uuid=make_id(),
            at=get_timestamp(),
            url=f"{self.url}{session_path(self._session_id)}",
            status=status,
        )
        self._end.session.conversation.note(entry)
