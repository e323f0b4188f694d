"""What servers offer and return: whatever it is, only what the service accepts is passed on."""

from base64 import b64encode
from typing import Any

import pytest

from clew.parts.mcp import schemas
from clew.parts.mcp.catalogue import CUT, MAX_DESCRIPTION, prompts_of, resources_of, tools_of
from clew.parts.mcp.content import MAX_BLOCKS, MAX_IMAGE_BYTES, block_of, reply_of
from tests.requirements import requirement

PNG = b"\x89PNG\r\n\x1a\n" + b"0" * 20


def b64(raw: bytes) -> str:
    return b64encode(raw).decode()


# -- schemas


def nested(depth: int) -> dict[str, Any]:
    schema: dict[str, Any] = {"type": "string"}
    for _ in range(depth):
        schema = {"type": "object", "properties": {"a": schema}}
    return schema


@requirement("R150")
@pytest.mark.parametrize(
    "schema",
    [
        {"type": "object"},
        {"type": "object", "properties": {"a": {"type": ["string", "null"], "enum": ["x"]}}},
        {"type": "object", "properties": {"a": {"$ref": "#/$defs/A"}}, "$defs": {"A": True}},
        {"type": "object", "properties": {"a": {"anyOf": [{"type": "string"}, {"not": {}}]}}},
        {"type": "object", "properties": {"a": {"pattern": "^[a-z]+$", "minLength": 1}}},
        {"type": "object", "properties": {"a": {"items": [{"type": "string"}]}}},
    ],
)
def test_a_sound_schema_passes_as_it_is(schema: dict[str, Any]) -> None:
    assert schemas.make_usable(schema) == (schema, "")


def test_an_input_without_a_type_is_an_object() -> None:
    assert schemas.make_usable({"properties": {}}) == ({"type": "object", "properties": {}}, "")


@pytest.mark.parametrize(
    ("schema", "why"),
    [
        (None, "must be an object"),
        ([], "must be an object"),
        ({"type": "string"}, 'must be "object"'),
        ({"type": ["object"]}, 'must be "object"'),
        ({"type": "object", "oneOf": [{}]}, "at the top"),
        ({"type": "object", "properties": {"a b": {}}}, "name"),
        ({"type": "object", "properties": {"a": {"type": "any"}}}, "type"),
        ({"type": "object", "properties": {"a": {"type": 3}}}, "type"),
        ({"type": "object", "properties": []}, "properties"),
        ({"type": "object", "properties": {"a": None}}, "must be objects"),
        ({"type": "object", "properties": {"a": {"minimum": "1"}}}, "minimum"),
        ({"type": "object", "properties": {"a": {"minLength": 1.5}}}, "minLength"),
        ({"type": "object", "properties": {"a": {"anyOf": {}}}}, "anyOf"),
        ({"type": "object", "properties": {"a": {"enum": "x"}}}, "enum"),
        ({"type": "object", "required": [1]}, "required"),
        ({"type": "object", "properties": {"a": {"$ref": "http://x/y"}}}, "another document"),
        ({"type": "object", "properties": {"a": {"pattern": "("}}}, "pattern"),
        ({"type": "object", "properties": {"a": {"pattern": 1}}}, "pattern"),
        (nested(60), "deep"),
        ({"type": "object", "properties": {f"p{n}": {} for n in range(5000)}}, "large"),
    ],
)
def test_a_schema_the_service_would_refuse_is_an_open_object(schema: Any, why: str) -> None:
    used, said = schemas.make_usable(schema)
    assert used == schemas.OPEN
    assert why in said


def test_arguments_said_in_headers_are_found_by_their_path() -> None:
    schema = {
        "type": "object",
        "properties": {
            "a": {"type": "string", "x-mcp-header": "Region"},
            "b": {"properties": {"c": {"x-mcp-header": "No Token"}, "d": {"x-mcp-header": "D"}}},
            "e": True,
        },
    }
    assert schemas.find_headers(schema) == {("a",): "Region", ("b", "d"): "D"}


# -- lists


@requirement("R150", "W26")
def test_tools_are_named_bounded_and_hinted() -> None:
    offers, faults = tools_of(
        "my server",
        [
            {
                "name": "b",
                "description": "d" * 9000,
                "inputSchema": {"type": "object"},
                "annotations": {
                    "readOnlyHint": True,
                    "destructiveHint": False,
                    "idempotentHint": True,
                    "openWorldHint": False,
                },
                "_meta": {"anthropic/maxResultSizeChars": 99, "anthropic/alwaysLoad": True},
            },
            {"name": "a", "title": "The A", "inputSchema": {"type": "string"}},
            {"name": "a"},
            {"name": 3},
        ],
    )
    first, second = offers
    assert (first.name, first.title, first.destructive) == ("mcp__my_server__a", "The A", True)
    assert first.input_schema == schemas.OPEN
    assert '"type":"string"' in first.description
    assert second.description == "d" * MAX_DESCRIPTION + CUT
    assert second.read_only
    assert not second.destructive
    assert second.idempotent
    assert not second.open_world
    assert second.always_load
    assert second.max_result_chars == 99
    assert len(faults) == 2
    assert tools_of("s", [{"name": "t"}])[0][0].description == ""


def test_prompts_and_resources_are_what_can_be_read_of_them() -> None:
    (prompt,) = prompts_of(
        "s",
        [
            {"name": "p", "arguments": [{"name": "file", "required": True}, {"name": "x"}, 3, {}]},
            {"description": "nameless"},
        ],
    )
    assert (prompt.name, prompt.hint) == ("mcp__s__p", "<file> [x]")
    assert prompts_of("s", [{"name": "q", "arguments": "no"}])[0].arguments == ()
    (found,) = resources_of("s", [{"uri": "a:b", "name": "N"}, {"name": "none"}], templates=False)
    assert (found.uri, found.name, found.is_template) == ("a:b", "N", False)
    (template,) = resources_of("s", [{"uriTemplate": "a:{b}"}], templates=True)
    assert template.is_template


# -- results


def test_a_result_is_its_text_images_and_what_can_be_said_of_the_rest() -> None:
    reply = reply_of(
        {
            "content": [
                {"type": "text", "text": "one"},
                {"type": "text", "text": ""},
                {"type": "image", "data": b64(PNG), "mimeType": "image/svg+xml"},
                {"type": "audio", "mimeType": "audio/wav", "data": "x"},
                {"type": "resource", "resource": {"uri": "a:b", "text": "inside"}},
                {"type": "resource", "resource": {"uri": "", "text": "bare"}},
                {"type": "resource", "resource": {"uri": "a:c", "blob": b64(PNG)}},
                {"type": "resource", "resource": {"uri": "a:d", "blob": b64(b"raw")}},
                {"type": "resource", "resource": {"uri": "a:e", "blob": 3}},
                {"type": "resource", "resource": 3},
                {"type": "resource_link", "name": "n", "uri": "u", "description": "about"},
                {"type": "resource_link"},
                {"type": "hologram"},
                7,
            ],
            "structuredContent": {"a": 1},
        }
    )
    kinds = [block["type"] for block in reply.blocks]
    assert kinds.count("image") == 2
    assert reply.blocks[1]["source"]["media_type"] == "image/png"
    for words in ("one", "audio/wav", "inside", "bare", "3 bytes", "unreadable", "hologram", "int"):
        assert words in reply.words
    assert "" not in [block.get("text") for block in reply.blocks]
    assert reply.structured == {"a": 1}
    assert not reply.is_error


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (b64(b"<svg/>"), "unsupported type"),
        ("not base64!", "invalid data"),
        (3, "invalid data"),
        (b64(PNG + b"0" * MAX_IMAGE_BYTES), "too large"),
    ],
)
def test_an_image_the_service_would_refuse_is_said_instead(data: Any, words: str) -> None:
    assert words in block_of({"type": "image", "data": data, "mimeType": "image/png"})["text"]


@pytest.mark.parametrize(
    ("raw", "kind"),
    [
        (b"\xff\xd8\xff\xe0", "image/jpeg"),
        (b"GIF89a..", "image/gif"),
        (b"RIFF\0\0\0\0WEBP", "image/webp"),
    ],
)
def test_an_image_is_what_its_bytes_say(raw: bytes, kind: str) -> None:
    block = block_of({"type": "image", "data": b64(raw), "mimeType": "image/png"})
    assert block["source"]["media_type"] == kind


def test_structured_content_alone_is_told_as_text() -> None:
    assert reply_of({"content": [], "structuredContent": {"a": [1]}}).words == '{"a":[1]}'
    assert reply_of({"content": [], "structuredContent": 3}).blocks == []


def test_answers_that_are_none_are_errors_or_said() -> None:
    assert reply_of(["no"]).is_error
    assert reply_of({"isError": True}).is_error
    assert "not a list" in reply_of({"content": "text"}).words
    many = reply_of({"content": [{"type": "text", "text": "x"}] * (MAX_BLOCKS + 5)})
    assert "5 more parts" in many.words
