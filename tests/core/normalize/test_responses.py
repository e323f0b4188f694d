"""Requests for OpenAI's responses, from the canonical blocks and from the service's own items."""

from typing import Any

from clew.core.normalize.responses import for_responses, to_responses
from clew.core.normalize.target import Target

Json = dict[str, Any]
TEXT = {"type": "text", "text": "a"}
PICTURE = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "AA=="}}
LINKED = {"type": "image", "source": {"type": "url", "url": "https://h/a.png"}}
REASONING = {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "sealed"}
CALL = {"type": "function_call", "id": "fc_1", "call_id": "call_9", "name": "t", "arguments": "{}"}


def use(call_id: str = "toolu_1") -> Json:
    return {"type": "tool_use", "id": call_id, "name": "t", "input": {"a": 1}}


def result(content: Any, call_id: str = "toolu_1", **more: Any) -> Json:
    return {"type": "tool_result", "tool_use_id": call_id, "content": content} | more


def items(*messages: Json, **options: Any) -> list[Json]:
    made: list[Json] = to_responses(list(messages), **options)["input"]
    return made


def said(*blocks: Json, **more: Any) -> Json:
    return {"role": "assistant", "content": list(blocks)} | more


def asked(*blocks: Json) -> Json:
    return {"role": "user", "content": list(blocks)}


def output(content: Any, **more: Any) -> Any:
    return items(said(use()), asked(result(content, **more)))[1]["output"]


def test_the_frame_of_a_request() -> None:
    tool = {"name": "t" * 70, "input_schema": {"type": "object"}}
    body = to_responses([], system=[TEXT, TEXT], tools=[tool])
    assert (body["instructions"], body["input"]) == ("a\n\na", [])
    (made,) = body["tools"]
    assert (len(made["name"]), made["strict"]) == (64, False)
    assert to_responses([], system="be kind")["instructions"] == "be kind"
    assert to_responses([]) == {"input": []}
    target = for_responses(Target())
    assert (target.prefill, target.server_tools) == (False, False)


def test_what_others_wrote_is_written_from_its_blocks() -> None:
    note = {"role": "system", "content": [TEXT]}
    developer, words, call, answer, after = items(
        note, said(TEXT, use(), TEXT), asked(result("done"), TEXT)
    )
    assert developer["role"] == "developer"
    assert words == {"type": "message", "role": "assistant", "content": "a\n\na"}
    assert (call["type"], call["arguments"]) == ("function_call", '{"a":1}')
    assert answer["call_id"] == call["call_id"]
    assert (answer["output"], after["role"]) == ("done", "user")


def test_the_services_own_items_return_unchanged_and_their_calls_keep_their_ids() -> None:
    own = said(use(), origin=[REASONING, CALL])
    reasoning, call, answer = items(own, asked(result("done")))
    assert (reasoning, call, answer["call_id"]) == (REASONING, CALL, "call_9")
    reasoning, call, _ = items(own, asked(result("done")), with_ids=False)
    assert "id" not in reasoning | call


def test_items_that_the_service_would_refuse_are_written_from_blocks() -> None:
    def kinds(origin: Any, *blocks: Json, **options: Any) -> list[str]:
        return [item["type"] for item in items(said(*blocks, origin=origin), **options)]

    assert kinds([REASONING, CALL], use(), refused={"sealed"}) == ["function_call"]
    assert kinds([REASONING | {"encrypted_content": None}, CALL], use()) == ["function_call"]
    assert kinds([REASONING, CALL], TEXT) == ["message"]
    assert kinds("odd", TEXT) == ["message"]


def test_calls_keep_their_ids_unless_they_are_missing_or_taken() -> None:
    def ids(*messages: Json) -> list[str]:
        return [item["call_id"] for item in items(*messages) if "call_id" in item]

    assert ids(said(use("a"), origin=[REASONING, CALL | {"call_id": None}])) == ["a"]
    assert ids(said(use("a"), use("b"), origin=[REASONING, CALL, CALL])) == ["call_9", "b"]
    # A service, or another one before it, may have given the same ID to an earlier call.
    again = asked(result("x", "b")), said(use("c"), origin=[CALL]), asked(result("y", "c"))
    assert ids(said(use("b"), origin=[CALL]), *again) == ["call_9", "call_9", "c", "c"]
    assert ids(said(use("call_9")), *again[1:]) == ["call_9", "c", "c"]


def test_results_and_media() -> None:
    assert output("no", is_error=True) == output([{"type": "text", "text": "no"}], is_error=True)
    text, picture = output([TEXT, PICTURE], is_error=True)
    assert (text["type"], picture["type"]) == ("input_text", "input_image")
    assert text["text"] != "a", "it says that this is an error"
    error, _ = output([PICTURE], is_error=True)
    assert error == {"type": "input_text", "text": "Error"}
    assert [part["type"] for part in output([TEXT, PICTURE])] == ["input_text", "input_image"]


def test_the_parts_of_a_prompt() -> None:
    def document(source: Json) -> Json:
        return {"type": "document", "source": source}

    pdf = {"type": "base64", "media_type": "application/pdf", "data": "AA=="}
    blocks = [
        LINKED,
        PICTURE,
        document(pdf),
        document({"type": "url", "url": "https://h/a.pdf"}),
        document({"type": "text", "media_type": "text/plain", "data": "plain"}),
        TEXT,
    ]
    (message,) = items(asked(*blocks))
    linked, picture, file, address, plain, text = message["content"]
    assert linked["image_url"] == "https://h/a.png"
    assert picture["image_url"] == "data:image/png;base64,AA=="
    assert (file["filename"], file["file_data"]) == (
        "document.pdf",
        "data:application/pdf;base64,AA==",
    )
    assert address["file_url"] == "https://h/a.pdf"
    assert (plain["text"], text["text"]) == ("plain", "a")
