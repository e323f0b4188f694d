"""Answer requests from MCP servers: requests for user input, and for a model response.

The user fills in forms; a permission rule or the user decides on model requests. Owns the path from
a server's request to `ask`, which permission prompts use too. What the user enters in a form goes
only to the server, never to the transcript or the model.
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, TypeAlias

from clew.agent.calls import BoundCall
from clew.agent.deps import NOTIFY_AFTER_S, Granted, Question, Refused, Verdict
from clew.agent.hooks.outcome import HookOutcome
from clew.agent.models import AskPerson
from clew.agent.tools.base import AskModel
from clew.core.json_object import Json
from clew.parts.mcp import elicit
from clew.parts.mcp.client import Hear, Helpers
from clew.parts.mcp.protocol import as_object, as_text
from clew.permissions.decision import Allow, Ask, Decision, Deny, Finding, describe_reason
from clew.system.jsonrpc.wire import INTERNAL_ERROR, INVALID_PARAMS, RpcFault

Judge: TypeAlias = Callable[[BoundCall], Decision]
# Runs the hooks of an event outside a turn.
Aside: TypeAlias = Callable[[str, Json], Awaitable[HookOutcome]]
# Like `Aside`, but does not wait for the hooks.
Tell: TypeAlias = Callable[[str, Json], object]
# Sends a question to the host program; None if it has no way to ask.
Elicit: TypeAlias = Callable[[Json], Awaitable[Json | None]]

# The fields of a request for input: the server's name for each, and the name that hooks receive.
TOLD = {
    "message": "message",
    "mode": "mode",
    "url": "url",
    "elicitationId": "elicitation_id",
    "requestedSchema": "requested_schema",
}
QUESTION = frozenset({"message", "url", "requested_schema"})
USER_REFUSED = -1
MOST_SAMPLES = 50
MOST_WORDS = 100_000


class ServerQuestions:
    """Handles the servers' requests, and counts how often each server asked to use the model."""

    def __init__(
        self,
        ask: AskPerson,
        judge: Judge,
        ask_model: AskModel,
        new_id: Callable[[], str],
        aside: Aside,
        tell: Tell,
        elicit: Elicit | None = None,
    ) -> None:
        self._aside = aside
        self._tell = tell
        self._elicit = elicit
        self._ask = ask
        self._judge = judge
        self._ask_model = ask_model
        self._new_id = new_id
        self._samples: dict[str, int] = {}

    def helpers(self, roots: Callable[[], Sequence[str]], hear: Hear) -> Helpers:
        return Helpers(
            roots=roots,
            elicit=self.elicit,
            sample=self.sample,
            completed=self.completed,
            hear=hear,
        )

    def completed(self, server: str, _: Json) -> None:
        """Notify the user that a server received the input it requested on a web page."""
        self._notify("elicitation_complete", "Done", f"{server} received your input")

    def _notify(self, kind: str, title: str, words: str) -> None:
        self._tell("Notification", {"message": words, "title": title, "notification_type": kind})

    def _block(self, name: str, fields: Json) -> Json:
        return {"type": "tool_use", "id": f"toolu_{self._new_id()}", "name": name, "input": fields}

    async def elicit(self, server: str, params: Json) -> Any:
        """Handle a server's request that the user fill in a form or visit a web page.

        An unanswered request is declined. Hooks may answer it in place of the user, or change the
        answer.
        """
        if elicit.why_refused(params):
            return {"action": "decline"}
        about = {"mcp_server_name": server} | {
            key: params[name] for name, key in TOLD.items() if name in params
        }
        outcome = await self._aside("Elicitation", about)
        if outcome.block is not None or outcome.halt is not None:
            return {"action": "decline"}
        answer = answer_of(outcome) or await self._given(server, params, about)
        outcome = await self._aside(
            "ElicitationResult",
            {name: value for name, value in about.items() if name not in QUESTION} | answer,
        )
        if outcome.block is not None or outcome.halt is not None:
            return {"action": "decline"}
        return answer_of(outcome) or answer

    async def _given(self, server: str, params: Json, about: Json) -> Json:
        """Ask the user, through the host program if it can ask.

        Hooks are notified if the user takes long to answer, and when the answer is sent.
        """
        why = f"the MCP server {server} asks for input"
        waits = asyncio.get_running_loop().call_later(
            NOTIFY_AFTER_S, self._notify, "elicitation_dialog", "Input requested", why
        )
        try:
            answer = None if self._elicit is None else await self._elicit(about)
            verdict = None if answer is not None else await self._asked(server, params, why)
        finally:
            waits.cancel()
        if verdict is None or isinstance(verdict, Granted) or verdict.by_person:
            self._notify("elicitation_response", "Answered", f"Sent your answer to {server}")
        if verdict is None:
            return answer or {}
        if isinstance(verdict, Refused):
            return {"action": "cancel" if verdict.stop else "decline"}
        return answered(server, params, verdict)

    async def _asked(self, server: str, params: Json, why: str) -> Verdict:
        block = self._block("AskUserQuestion", {"questions": elicit.make_questions(server, params)})
        decision = Ask(findings=(Finding(subject=server, verdict="ask", reason=why),))
        return await self._ask(
            Question(block=block, title=why, decision=decision, why=why, kind="choices")
        )

    async def sample(self, server: str, params: Json) -> Any:
        """Pass a server's prompt to the model, if a rule or the user allows it."""
        self._samples[server] = self._samples.get(server, 0) + 1
        if self._samples[server] > MOST_SAMPLES:
            return RpcFault(code=USER_REFUSED, message=f"limit of {MOST_SAMPLES} requests reached")
        prompt = conversation(params.get("messages"))
        if prompt is None:
            return RpcFault(code=INVALID_PARAMS, message="only text messages are supported")
        system = as_text(params.get("systemPrompt"))[:MOST_WORDS]
        refused = await self._refused(server, {"prompt": prompt, "system": system})
        if refused:
            return RpcFault(code=USER_REFUSED, message=refused)
        answer = await self._ask_model(prompt, system=system)
        if not isinstance(answer, str):
            return RpcFault(code=INTERNAL_ERROR, message="the model did not respond")
        return {
            "role": "assistant",
            "content": {"type": "text", "text": answer},
            "model": "small",
            "stopReason": "endTurn",
        }

    async def _refused(self, server: str, fields: Json) -> str:
        """Return why a request to use the model is rejected, or an empty string if it is allowed.

        A permission rule for `mcp__SERVER__sampling` decides; if there is none, the user is asked.
        """
        from clew.parts.mcp.config import tool_name

        block = self._block(tool_name(server, "sampling"), fields)
        decision = self._judge(BoundCall(block=block))
        if isinstance(decision, Allow):
            return ""
        if isinstance(decision, Deny):
            return f"not permitted: {describe_reason(decision)}"
        why = f"the MCP server {server} wants to use the model at your expense"
        verdict = await self._ask(Question(block=block, title=why, decision=decision, why=why))
        return "" if isinstance(verdict, Granted) else "the user rejected the request"


def answered(server: str, params: Json, verdict: Granted) -> Json:
    """Return the user's answer to a server's request, in the format of the protocol."""
    answer_fields = as_object((verdict.input or {}).get("answers"))
    answers = [
        answer_fields.get(question["question"])
        for question in elicit.make_questions(server, params)
    ]
    if params.get("mode") == "url":
        return {"action": "accept" if answers == [elicit.VISITED] else "decline"}
    content = elicit.read_form(params, answers)
    return {"action": "decline"} if content is None else {"action": "accept", "content": content}


def answer_of(outcome: HookOutcome) -> Json:
    """Return the answer that hooks gave to a server's request, or an empty object."""
    if not outcome.action:
        return {}
    content = outcome.content if outcome.action == "accept" else None
    return {"action": outcome.action} | ({} if content is None else {"content": content})


def conversation(messages: Any) -> str | None:
    """Return the messages of a request as one prompt, or None if any of them is not text."""
    listed = messages if isinstance(messages, list) else []
    turns: list[tuple[str, str]] = []
    for message in listed:
        content = as_object(message).get("content")
        parts = content if isinstance(content, list) else [content]
        for part in parts:
            words = as_object(part).get("text")
            if as_object(part).get("type") != "text" or not isinstance(words, str):
                return None
            turns.append((as_text(as_object(message).get("role")), words))
    if len(turns) == 1:
        return turns[0][1][:MOST_WORDS]
    text = "\n\n".join(f"{role.capitalize()}: {words}" for role, words in turns)
    return text[:MOST_WORDS] or None
