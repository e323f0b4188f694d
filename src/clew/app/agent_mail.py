"""What is said to an agent while it works, written down before it is heard: a crash loses none of it.

Decision: docs/decisions/116-background-tasks.md
"""

from collections.abc import Sequence
from typing import Any, TypeAlias

from clew.engine.conversation import Inbox
from clew.messages import factories
from clew.transcript.agents import Letter, unheard
from clew.transcript.record import AgentRecorder

Json: TypeAlias = dict[str, Any]

# By which agents reach the session's own conversation.
MAIN = "main"
# Of a message, what its line says beside its words.
KEPT = ("promptSource", "origin", "permissionMode")


class Mailbox(Inbox):
    """An agent's; it begins with what was said to it in an earlier run and never heard."""

    def __init__(self, recorder: AgentRecorder, *, goes_on: bool) -> None:
        super().__init__()
        self._recorder = recorder
        if goes_on:
            for letter in unheard(recorder.transcript, recorder.paths.home):
                super().put(message_of(letter))

    def put(self, message: Json, context: Sequence[Json] = ()) -> None:
        super().put(message, context)
        about = {name: message[name] for name in KEPT if name in message}
        self._recorder.queue_operation(
            "enqueue", message["message"]["content"], messageUuid=message["uuid"], **about
        )


def message_of(letter: Letter) -> Json:
    origin = letter.about.get("origin")
    return factories.user(
        letter.content,
        uuid=letter.uuid,
        at=str(letter.about.get("timestamp")),
        prompt_source=str(letter.about.get("promptSource", "system")),
        origin=origin if isinstance(origin, dict) else None,
        permission_mode=letter.about.get("permissionMode"),
    )


def words_of(letter: Letter) -> str:
    return letter.content if isinstance(letter.content, str) else str(letter.content)


def to_session(recorder: AgentRecorder, words: str, uuid: str) -> None:
    """What an agent says to the session's own conversation, until that has heard it."""
    recorder.queue_operation("enqueue", words, messageUuid=uuid, to=MAIN)
