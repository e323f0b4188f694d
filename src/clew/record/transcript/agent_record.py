"""The recorder of a subagent's own transcript."""

from collections.abc import Sequence
from typing import Any

import msgspec

from clew.record.transcript.agents import AgentMetadata, encode_metadata, write_metadata
from clew.record.transcript.record import Recorder
from clew.record.transcript.side_lines import Message
from clew.record.transcript.strand import Strand


class AgentRecorder(Recorder):
    """The recorder of a subagent: its own file and chain, with the session's log, mirror and ID.

    `resume` continues an earlier run of the subagent. Titles and the costs of the subagent's
    requests are recorded by the session's recorder. The subagent's type is in a sidecar next to the
    transcript; mirrors receive it as a separate entry.
    """

    def __init__(self, session: Recorder, agent_id: str) -> None:
        super().__init__(
            paths=session.paths,
            log=session._log,
            writer=session.writer,
            now=session._now,
            mirror=session._mirror,
        )
        self.writer = msgspec.structs.replace(
            session.writer, agent_id=agent_id, team_name=None, agent_name=None
        )
        self.agent_id = agent_id
        self._session = session
        self._described: AgentMetadata | None = None
        self._main = Strand(session.paths.agent(agent_id))

    def describe(self, metadata: AgentMetadata) -> None:
        """Record the subagent's type and metadata for a later resume, if they have changed."""
        if self._log is not None and metadata != self._described:
            self._described = metadata
            write_metadata(self.transcript, metadata, self.paths.home)
            if self._mirror is not None:
                record = {"type": "agent_metadata"} | encode_metadata(metadata)
                self._mirror(self.transcript, [record])

    def rest(self) -> None:
        """Release the file while nothing is written, because a session may have many agents."""
        if self._log is not None:
            self._log.release(self.transcript)

    def moved_to(self, cwd: str) -> None:
        """Record that the agent works in a different folder than its session."""
        self.writer = msgspec.structs.replace(self.writer, cwd=cwd)

    def request_cost(self, **cost: Any) -> None:
        purpose = "subagent" if cost.get("purpose") == "turn" else cost.get("purpose")
        self._session.request_cost(**cost | {"purpose": purpose, "agentId": self.agent_id})

    def title(self, text: str) -> None:
        self._session.title(text)

    def last_prompt(self, text: str) -> None:
        """Do nothing: a subagent does not affect the session's leaf and title."""

    def _may_begin(self, _: Sequence[Message]) -> bool:
        return True

    def _beginning(self) -> list[Message]:
        return []
