"""The parts that sessions of Gemini CLI and Qwen Code consist of. Does no I/O."""

from collections.abc import Iterator

from clew.core.json_object import Json, object_of, text_of
from clew.record.exchange.targets.turns import ExportedTurn, count_tokens

# The programs' names for clew's tools that have the same parameters.
_TOOLS = {"Bash": "run_shell_command", "Write": "write_file", "Read": "read_file"}


def tool_name(name: str) -> str:
    return _TOOLS.get(name, name)


def make_call_part(block: Json) -> Json:
    name, value = tool_name(block["name"]), object_of(block.get("input"))
    return {"functionCall": {"id": block["id"], "name": name, "args": value}}


def make_result_part(turn: ExportedTurn) -> Json:
    response: Json = {
        "id": turn.call_id,
        "name": tool_name(turn.tool),
        "response": {"error" if turn.is_error else "output": turn.text},
    }
    pictures = [make_part(block) for block in turn.blocks if block["type"] == "image"]
    return {"functionResponse": response | ({"parts": pictures} if pictures else {})}


def make_part(block: Json) -> Json:
    """Return the part for a text or an image."""
    if block["type"] == "text":
        return {"text": block["text"]}
    source = object_of(block.get("source"))
    media, data = text_of(source.get("media_type")), text_of(source.get("data"))
    return {"inlineData": {"mimeType": media, "data": data}}


def make_parts(turn: ExportedTurn) -> Iterator[Json]:
    """Yield the parts of a response, in order."""
    for block in turn.blocks:
        match block["type"]:
            case "thinking":
                if block["thinking"]:
                    yield {"text": block["thinking"], "thought": True}
            case "tool_use":
                yield make_call_part(block)
            case _:
                yield make_part(block)


def count_input(turn: ExportedTurn) -> tuple[int, int, int]:
    """Return the tokens of a request, how many of them were cached, and those of the response."""
    cached = count_tokens(turn.usage, "cache_read_input_tokens")
    written = count_tokens(turn.usage, "cache_creation_input_tokens")
    prompt = count_tokens(turn.usage, "input_tokens") + cached + written
    return prompt, cached, count_tokens(turn.usage, "output_tokens")
