"""A file change as a diff in the editor, which the user accepts or rejects there.

Owns the request to the editor and the meaning of its answer. An answer is accepted only if it
responds to the request that showed exactly this change. Anything else (an error, a closed tab, the
end of the connection) is no answer, and the question in clew stays open.
"""

from collections.abc import Sequence
from hashlib import sha256
from pathlib import Path

from msgspec import Struct

from clew.agent.calls import BoundCall
from clew.agent.deps import Granted, Question, Refused, Verdict
from clew.agent.tools.base import ToolSession
from clew.agent.tools.edit import EditStep, apply_steps, plan_creation
from clew.agent.tools.files import crlf, decode
from clew.core.json_object import Json
from clew.core.messages.errors import ClewError
from clew.core.messages.text import describe_user_rejection
from clew.system.files import is_there, read_content
from clew.system.jsonrpc.peer import Outcome, PeerAnswer
from clew.system.jsonrpc.wire import as_list, as_object, as_text

OPEN, CLOSE_TAB = "openDiff", "close_tab"
SAVED, REJECTED = "FILE_SAVED", "DIFF_REJECTED"
# Larger files are not shown in the editor.
MAX_BYTES = 2 << 20


class ProposedChange(Struct, frozen=True, kw_only=True):
    """The change that a call would make to one file. `tab` names the diff in the editor."""

    path: Path
    before: str
    after: str
    tab: str

    def to_arguments(self) -> Json:
        """Return the arguments for the editor's tool that shows the change."""
        return {
            "old_file_path": str(self.path),
            "new_file_path": str(self.path),
            "new_file_contents": self.after,
            "tab_name": self.tab,
        }


def propose(question: Question, call: BoundCall, session: ToolSession) -> ProposedChange | None:
    """Return the change to a text file that a question is about, or None if there is none.

    `call` is the tool call that the question is about.
    """
    name, arguments = call.name, call.given
    is_change = question.kind == "permission" and name in ("Edit", "MultiEdit", "Write")
    if not is_change or arguments is None:
        return None
    # A subagent may work in its own folder, to which the path would be relative.
    if question.agent_id and not Path(arguments.file_path).is_absolute():
        return None
    try:
        path = session.path(arguments.file_path)
        data = read_content(path, MAX_BYTES + 1) if is_there(path) else None
        text = None if data is None or len(data) > MAX_BYTES else decode(data)
        if data is not None and text is None:
            return None
        before = "" if text is None else text.text
        if name == "Write":
            after = (
                crlf(arguments.content) if text is not None and text.is_crlf else arguments.content
            )
        else:
            steps: Sequence[EditStep] = arguments.edits if name == "MultiEdit" else [arguments]
            creates = not steps[0].old_string
            after = (
                plan_creation(path, steps) if creates else apply_steps(path, before, steps).after
            )
    except (ClewError, OSError, ValueError):
        return None
    mark = sha256(str(call.block["id"]).encode()).hexdigest()[:6]
    # Editors recognize the tab of a diff by these two symbols.
    return ProposedChange(
        path=path, before=before, after=after, tab=f"✻ [clew] {path.name} ({mark}) ⧉"
    )


def read_answer(outcome: Outcome, question: Question, change: ProposedChange) -> Verdict | None:
    """Return the user's answer in the editor, or None if the outcome is not an answer."""
    if not isinstance(outcome, PeerAnswer):
        return None
    result = as_object(outcome.result)
    texts = [
        as_text(as_object(block).get("text"))
        for block in as_list(result.get("content"))
        if as_object(block).get("type") == "text"
    ]
    if result.get("isError") is True or not texts:
        return None
    match texts[0]:
        case text if text == REJECTED:
            return Refused(words=describe_user_rejection(), stop=True)
        case text if text == SAVED:
            final = texts[1] if len(texts) > 1 else change.after
            return grant(question.block, change, final)
    return None


def grant(block: Json, change: ProposedChange, final: str) -> Verdict:
    """Return the approval of a change, or of the user's version of it.

    If the user's version restores the original content, return a rejection.
    """
    if is_same(final, change.after):
        return Granted()
    if is_same(final, change.before):
        return Refused(words=describe_user_rejection(), stop=True)
    fields = block["input"]
    step = {"old_string": change.before, "new_string": final}
    match block["name"]:
        case "Write":
            edited = fields | {"content": final}
        case "MultiEdit":
            edited = fields | {"edits": [step]}
        case _:
            edited = fields | step | {"replace_all": False}
    return Granted(input=edited, is_edited=True)


def is_same(text: str, other: str) -> bool:
    """Return whether two strings are equal except for line endings and newlines at the end.

    An editor may change these.
    """
    return text.replace("\r\n", "\n").rstrip("\n") == other.replace("\r\n", "\n").rstrip("\n")
