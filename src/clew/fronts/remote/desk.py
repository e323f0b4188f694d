"""The interface through which viewers and remote tasks use the terminal that runs a session."""

from typing import Protocol

from clew.fronts.drive import Line


class SessionDesk(Protocol):
    """The terminal of a session, from the viewers' perspective."""

    @property
    def is_over(self) -> bool:
        """True if the session is about to end. Its open questions are then closed."""
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
