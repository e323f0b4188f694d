"""Questions to the user of an editor: permissions, plans, choices.

This module asks each question and converts the answer to a verdict. Answers that apply to more than
one call are offered as the protocol's "always" options, worded by `permissions.suggest`. If there
is no answer, the call is rejected and the turn ends.
"""

from msgspec import Struct

from clew.agent.deps import Granted, Question, Refused, Verdict
from clew.core.json_object import Json
from clew.core.messages.text import describe_user_rejection
from clew.fronts.editor.client import EditorClient
from clew.fronts.editor.protocol import (
    ReadFile,
    answers_of,
    as_content,
    describe_call,
    form_of,
    text,
)
from clew.fronts.questions import lasting_answers, take
from clew.permissions.in_session import SessionRules
from clew.permissions.updates import ModeUpdate, Update
from clew.system.jsonrpc.peer import PeerAnswer
from clew.system.jsonrpc.wire import as_object, as_text

YES = "allow"
NO = "reject"
OFFER = "always-"
SKIPPED = "Skip these questions"
ACCEPT_EDITS = ModeUpdate(type="setMode", mode="acceptEdits", destination="session")


class EditorChoice(Struct, frozen=True, kw_only=True):
    """One option that the user can select. `update` is the change that it makes to the rules."""

    id: str
    name: str
    kind: str
    update: Update | None = None
    is_kept: bool = False

    def told(self) -> Json:
        return {"optionId": self.id, "name": self.name, "kind": self.kind}


REJECT = EditorChoice(id=NO, name="No", kind="reject_once")


class EditorQuestions:
    """Asks the user of the editor.

    `rules` are the session's permission rules. `read_file` returns the text of a file, which is
    needed to show a proposed change as a diff.
    """

    def __init__(
        self, client: EditorClient, rules: SessionRules, cwd: str, read_file: ReadFile
    ) -> None:
        self._client = client
        self._rules = rules
        self._cwd = cwd
        self._read_file = read_file

    async def ask(self, question: Question) -> Verdict:
        match question.kind:
            case "choices":
                return await self._choices(question)
            case "plan":
                return await self._plan(question)
            case "permission":
                return await self._permission(question)

    async def _permission(self, question: Question) -> Verdict:
        call = describe_call(question.block, question.title, self._cwd, self._read_file)
        why = as_content([text(f"Needs approval: {question.why}")])
        call = call | {"content": [*call.get("content", []), *why]}
        chosen = await self._chosen(question, call, self._answers(question))
        if chosen is None:
            return Refused(words=describe_user_rejection(), stop=True)
        if chosen.id == NO:
            return Refused(words=describe_user_rejection())
        self._take(chosen)
        return Granted()

    def _answers(self, question: Question) -> list[EditorChoice]:
        answers = lasting_answers(question, self._rules)
        always = [
            EditorChoice(
                id=f"{OFFER}{number}",
                name=f"Yes, and {offer.words}",
                kind="allow_always",
                update=offer.update,
                is_kept=offer.is_kept,
            )
            for number, offer in enumerate(answers, 1)
        ]
        return [EditorChoice(id=YES, name="Yes", kind="allow_once"), *always, REJECT]

    async def _plan(self, question: Question) -> Verdict:
        call = {
            "title": "Start working on this plan?",
            "kind": "switch_mode",
            "content": as_content([text(question.body)]),
        }
        answers = [
            EditorChoice(id=YES, name="Yes, and ask about edits", kind="allow_once"),
            EditorChoice(
                id=f"{OFFER}1",
                name="Yes, and make edits without asking",
                kind="allow_always",
                update=ACCEPT_EDITS,
            ),
            EditorChoice(id=NO, name="No, keep planning", kind="reject_once"),
        ]
        chosen = await self._chosen(question, call, answers)
        if chosen is None:
            return Refused(words=describe_user_rejection(), stop=True)
        if chosen.id == NO:
            return Refused(words=describe_user_rejection("keep planning"))
        self._take(chosen)
        return Granted()

    async def _filled_in(self, question: Question) -> Verdict:
        """Ask all questions of a call in one form, and return the answers."""
        arguments = question.block["input"]
        params = {
            "mode": "form",
            "toolCallId": question.block["id"],
            "message": "clew has questions for you.",
            "requestedSchema": form_of(arguments["questions"]),
        }
        outcome = await self._client.ask("elicitation/create", params)
        reply = as_object(outcome.result) if isinstance(outcome, PeerAnswer) else {}
        if reply.get("action") == "decline":
            return Refused(words=describe_user_rejection(SKIPPED))
        answers = answers_of(arguments["questions"], reply.get("content"))
        if reply.get("action") != "accept" or not answers:
            return Refused(words=describe_user_rejection(), stop=True)
        return Granted(input=arguments | {"answers": answers})

    async def _choices(self, question: Question) -> Verdict:
        """Ask the questions of a call: in one form or, if the client has no forms, one by one.

        A question that is asked separately has a single answer.
        """
        if self._client.can.asks:
            return await self._filled_in(question)
        arguments = question.block["input"]
        answers: dict[str, str] = {}
        for entry in arguments["questions"]:
            call = {
                "title": entry["question"],
                "kind": "other",
                "content": as_content([text(explained(entry))]),
            }
            options = [
                EditorChoice(id=f"{OFFER}{number}", name=str(option["label"]), kind="allow_once")
                for number, option in enumerate(entry["options"])
            ]
            none = EditorChoice(id=NO, name="None of these", kind="reject_once")
            chosen = await self._chosen(question, call, [*options, none])
            if chosen is None:
                return Refused(words=describe_user_rejection(), stop=True)
            if chosen.id == NO:
                return Refused(
                    words=describe_user_rejection(f"none of these answers: {entry['question']}")
                )
            answers[entry["question"]] = chosen.name
        return Granted(input=arguments | {"answers": answers})

    async def _chosen(
        self, question: Question, call: Json, answers: list[EditorChoice]
    ) -> EditorChoice | None:
        """Ask the user to select an option. Return it, or None if none was selected."""
        params = {
            "toolCall": {"toolCallId": question.block["id"], "status": "pending", **call},
            "options": [answer.told() for answer in answers],
        }
        outcome = await self._client.ask("session/request_permission", params)
        selection = (
            as_object(outcome.result).get("outcome") if isinstance(outcome, PeerAnswer) else None
        )
        if as_object(selection).get("outcome") != "selected":
            return None
        option_id = as_text(as_object(selection).get("optionId"))
        return next((answer for answer in answers if answer.id == option_id), None)

    def _take(self, chosen: EditorChoice) -> None:
        if chosen.update is None:
            return
        if trouble := take(chosen.update, self._rules):
            self._notice(trouble)

    def _notice(self, words: str) -> None:
        self._client.tell(
            {"sessionUpdate": "agent_message_chunk", "content": text(f"> clew: {words}\n\n")}
        )


def explained(question: Json) -> str:
    """Return a question as text, followed by the options that have a description."""
    lines = [
        f"- **{option['label']}**: {option['description']}"
        for option in question["options"]
        if option.get("description")
    ]
    return "\n".join([str(question["question"]), *lines])
