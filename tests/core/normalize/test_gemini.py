"""Requests for Gemini, from the canonical blocks and from the service's own parts."""

from typing import Any

from google.genai import types as google

from clew.core.normalize.gemini import (
    FOREIGN_SIGNATURE,
    for_gemini,
    shorten_for_gemini,
    to_gemini,
    to_schema,
)
from clew.core.normalize.target import Target

Json = dict[str, Any]
TEXT = {"type": "text", "text": "a"}
PICTURE = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "AA=="}}
MOVING = {"type": "image", "source": {"type": "base64", "media_type": "image/gif", "data": "AA=="}}
INLINE = {"inlineData": {"mimeType": "image/png", "data": "AA=="}}
SIGNED = {"functionCall": {"id": "c9", "name": "t", "args": {}}, "thoughtSignature": "c2VhbGVk"}


def use(call_id: str = "toolu_1", name: str = "t") -> Json:
    return {"type": "tool_use", "id": call_id, "name": name, "input": {"a": 1}}


def result(content: Any, call_id: str = "toolu_1", **more: Any) -> Json:
    return {"type": "tool_result", "tool_use_id": call_id, "content": content} | more


def said(*blocks: Json, **more: Any) -> Json:
    return {"role": "assistant", "content": list(blocks)} | more


def asked(*blocks: Json) -> Json:
    return {"role": "user", "content": list(blocks)}


def contents(*messages: Json, **options: Any) -> list[list[Json]]:
    """The parts of each content; Google's types judge all of them."""
    made = to_gemini(list(messages), **options)["contents"]
    for content in made:
        google.Content.model_validate(content)
    return [content["parts"] for content in made]


def test_the_frame_of_a_request() -> None:
    schema = {"type": "object", "properties": {"const": {"const": 1}}, "anyOf": [{"const": "b"}]}
    tool = {"name": "9" * 70, "input_schema": schema}
    body = to_gemini([], system=[TEXT, TEXT], tools=[tool])
    assert body["systemInstruction"] == {"parts": [{"text": "a\n\na"}]}
    ((declared,),) = [one["functionDeclarations"] for one in body["tools"]]
    google.FunctionDeclaration.model_validate(declared)
    assert (len(declared["name"]), declared["name"][0]) == (64, "_")
    assert to_schema(schema) == {
        "type": "object",
        "properties": {"const": {"enum": [1]}},
        "anyOf": [{"enum": ["b"]}],
    }
    assert to_schema({"enum": [{"const": 1}], "properties": True})["enum"] == [{"const": 1}]
    assert to_gemini([], system="be kind")["systemInstruction"]["parts"] == [{"text": "be kind"}]
    assert to_gemini([]) == {"contents": []}
    assert shorten_for_gemini("mcp__a") == "mcp__a"
    assert not for_gemini(Target()).system_messages


def test_what_others_wrote_says_that_it_has_no_signature() -> None:
    answer = said(TEXT, use("toolu_1"), use("a.b", "3d"), TEXT)
    results = asked(TEXT, result("done"), result([TEXT, TEXT], "a.b", is_error=True))
    words, after, first, second = contents(answer, results)[0]
    assert (words, after) == ({"text": "a"}, {"text": "a"})
    assert first["thoughtSignature"] == FOREIGN_SIGNATURE
    assert "thoughtSignature" not in second
    assert second["functionCall"]["name"] == "_3d"
    one, other = (part["functionResponse"] for part in contents(answer, results)[1])
    assert one == {"id": "toolu_1", "name": "t", "response": {"output": "done"}}
    assert (other["id"], other["response"]) == (second["functionCall"]["id"], {"error": "a\na"})
    assert contents(answer, results)[2] == [{"text": "a"}], "words follow the results"
    assert "thoughtSignature" not in contents(answer, results, is_signed=False)[0][2]


def test_the_services_own_parts_return_unchanged() -> None:
    bare = {"functionCall": {"name": "t"}}
    parts, results = contents(said(use(), origin=[SIGNED]), asked(result("done")))
    assert (parts, results[0]["functionResponse"]["id"]) == ([SIGNED], "c9")
    parts, results = contents(said(use(), origin=[bare]), asked(result("done")))
    assert parts == [bare]
    assert "id" not in results[0]["functionResponse"], "a call without an ID has no ID to answer"


def test_parts_that_do_not_fit_their_blocks_are_written_from_them() -> None:
    for origin, blocks in (
        ([SIGNED], [TEXT]),
        ("odd", [TEXT]),
    ):
        (parts,) = contents(said(*blocks, origin=origin))
        assert "c2VhbGVk" not in str(parts)


def test_an_id_that_another_call_has_is_replaced() -> None:
    (parts,) = contents(said(use("a"), use("b"), origin=[SIGNED, SIGNED]))
    assert [part["functionCall"]["id"] for part in parts] == [SIGNED["functionCall"]["id"], "b"]
    assert [part["thoughtSignature"] for part in parts] == [SIGNED["thoughtSignature"]] * 2


def test_media_of_results_and_prompts() -> None:
    answered = said(use()), asked(result([TEXT, PICTURE], is_error=True))
    (part,) = contents(*answered)[1]
    assert part["functionResponse"]["parts"] == [INLINE]
    _, results, media = contents(*answered, holds_media=False)
    assert "parts" not in results[0]["functionResponse"]
    assert media[1] == INLINE
    plain = {"type": "text", "media_type": "text/plain", "data": "plain"}
    ((picture, moving, words),) = contents(
        asked(PICTURE, MOVING, {"type": "document", "source": plain})
    )
    assert (picture, words) == (INLINE, {"text": "plain"})
    assert "image/gif" in moving["text"]
