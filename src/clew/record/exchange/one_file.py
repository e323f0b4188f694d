"""Convert the one-file JSON format (`version`, `state`, `messages`, `metadata`). Pure."""

from collections.abc import Callable
from typing import Any

from clew.core.json_object import Json, list_of, object_of, text_of
from clew.core.messages.kinds import CHAIN, KINDS, find_faults
from clew.record.exchange.conversion import Builder, Converted, Helper

AGENT = "subagent without an ID or a message"
# The members that describe an agent; older files have no others.
_OF_AGENT = ("agentType", "description", "toolUseId")


def is_one_file(value: Any) -> bool:
    return type(value) is dict and type(value.get("messages")) is list and "type" not in value


def convert(value: Json, new_uuid: Callable[[], str]) -> Converted:
    """Convert the object; valid entries stay as they are, bare API messages become entries."""
    metadata, state = object_of(value.get("metadata")), object_of(value.get("state"))
    source_id = text_of(state.get("sessionId")) or text_of(value.get("id"))
    build = Builder("one file", source_id, new_uuid)
    build.out.title = text_of(state.get("title"))
    build.out.cwd = text_of(metadata.get("projectPath"))
    build.out.branch = text_of(metadata.get("gitBranch"))
    build.time(metadata.get("created"))
    for message in map(object_of, value["messages"]):
        _message(build, message, new_uuid)
    for agent in map(object_of, list_of(value.get("agents"))):
        _agent(build, agent, new_uuid)
    return build.finished()


def _agent(build: Builder, agent: Json, new_uuid: Callable[[], str]) -> None:
    own = Builder("subagent", text_of(agent.get("agentId")), new_uuid)
    for message in map(object_of, list_of(agent.get("messages"))):
        _message(own, message, new_uuid)
    conversion = own.finished()
    for reason, count in conversion.losses.items():
        build.lose(reason, count)
    if not conversion.source_id or not conversion.messages:
        build.lose(AGENT)
        return
    fields = {key: agent[key] for key in _OF_AGENT if type(agent.get(key)) is str}
    build.out.agents.append(
        Helper(
            agent_id=conversion.source_id,
            messages=conversion.messages,
            metadata=object_of(agent.get("metadata")) or fields,
        )
    )


def _message(build: Builder, message: Json, new_uuid: Callable[[], str]) -> None:
    at = build.time(message.get("timestamp"))
    kind = message.get("type")
    known_kind = KINDS.get(kind) if type(kind) is str else None
    if known_kind is not None and known_kind.place == CHAIN:
        entry = message | {"timestamp": at}
        if type(entry.get("uuid")) is not str:
            entry["uuid"] = new_uuid()
        message_fields = object_of(entry.get("message"))
        is_one = kind != "assistant" or len(list_of(message_fields.get("content"))) == 1
        if is_one and not find_faults(entry):
            build.take(entry)
            return
        message = message_fields
    content = message.get("content")
    blocks = (
        [{"type": "text", "text": content}]
        if type(content) is str
        else [b for b in list_of(content) if type(b) is dict and type(b.get("type")) is str]
    )
    match message.get("role"):
        case "user":
            for block in blocks:
                if block["type"] == "tool_result":
                    build.result(
                        text_of(block.get("tool_use_id")),
                        block.get("content") or "",
                        at,
                        is_error=block.get("is_error") is True,
                    )
            build.user([b for b in blocks if b["type"] != "tool_result"], at)
        case "assistant":
            usage = message.get("usage")
            build.answer(
                [b for b in blocks if _is_sayable(b)],
                at,
                model=text_of(message.get("model")),
                usage=usage if type(usage) is dict else None,
            )
        case _:
            build.lose(f"message of type {text_of(kind) or text_of(message.get('role')) or 'none'}")


def _is_sayable(block: Json) -> bool:
    if block["type"] == "tool_use":
        return all(type(block.get(key)) is str for key in ("id", "name")) and "input" in block
    return block["type"] in ("text", "thinking")
