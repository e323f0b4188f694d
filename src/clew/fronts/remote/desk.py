"""The interface to the terminal that runs a session, for its viewers and its remote tasks."""

from typing import Protocol

from clew.fronts.drive import Line


class SessionDesk(Protocol):
    """The terminal of a session, as viewers use it."""

    @property
    def is_over(self) -> bool:
        """True if the session is about to end, which closes its questions."""
        ...

    def receive(self, line: Line) -> None:
        """Handle a viewer's prompt."""
        ...

    def stop(self) -> bool:
        """Interrupt the running turn; return whether there was one."""
        ...

    def tell(self, words: str) -> None:
        """Show a notice to the user."""
        ...

    def changed(self) -> None:
        """Redraw what may have changed, such as the mode and the model."""
        return
