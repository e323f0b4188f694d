"""Whether a value fits a schema, keyword by keyword."""

from typing import Any

import pytest

from clew.agent.tools.json_schema import find_mismatch, find_schema_fault

NESTED: Any = {"$defs": {"tree": {"properties": {"kids": {"items": {"$ref": "#/$defs/tree"}}}, "required": ["name"]}}, "$ref": "#/$defs/tree"}  # fmt: skip
DEEP: Any = {"$ref": "#"}


@pytest.mark.parametrize(
    ("value", "schema"),
    [
        ({"a": 1}, {}), (1, True), (1, {"type": "number"}), (1.0, {"type": "integer"}),
        ("x", {"type": ["null", "string"]}), (None, {"type": "null"}), (True, {"type": "boolean"}),
        (1, {"enum": [1, 2]}), ("a", {"const": "a"}), (3, {"minimum": 3, "maximum": 3}),
        (4, {"multipleOf": 2}), ("abc", {"pattern": "b", "minLength": 3, "maxLength": 3}),
        ([1, 1], {"items": {"type": "integer"}}), ([1, "a"], {"prefixItems": [{"type": "integer"}, {"type": "string"}]}),
        ([1, 2], {"uniqueItems": True}), ({"a": 1}, {"properties": {"a": True}, "additionalProperties": False}),
        ({"b": 1}, {"additionalProperties": {"type": "integer"}}),
        (1, {"anyOf": [{"type": "string"}, {"type": "integer"}]}), (1, {"oneOf": [{"type": "string"}, {"type": "integer"}]}),
        (1, {"allOf": [{"minimum": 0}, {"maximum": 2}]}), (1, {"not": {"type": "string"}}),
        ({"name": 1, "kids": [{"name": 2}]}, NESTED), (1, {"$ref": "#/nowhere"}), (1, {"type": "new kind"}),
        (1, {"enum": "odd", "required": 3, "properties": 3, "anyOf": 3, "minimum": "1"}),
    ],
)  # fmt: skip
def test_what_fits_is_told_nothing(value: Any, schema: Any) -> None:
    assert find_mismatch(value, schema) == ""


@pytest.mark.parametrize(
    ("value", "schema", "said"),
    [
        (1, False, "root: no value is allowed"),
        (True, {"type": "integer"}, "root: must be integer"),
        (1.5, {"type": "integer"}, "root: must be integer"),
        (1, {"type": ["null", "string"]}, "root: must be null or string"),
        (True, {"enum": [1]}, "root: must be one of 1"),
        (1, {"const": 2}, "root: must be 2"),
        (1, {"minimum": 2}, "root: violates minimum 2"),
        (1, {"exclusiveMinimum": 1}, "root: violates exclusiveMinimum 1"),
        (1, {"exclusiveMaximum": 1}, "root: violates exclusiveMaximum 1"),
        ([], {"minItems": 1}, "root: violates minItems 1"),
        ([1], {"maxItems": 0}, "root: violates maxItems 0"),
        ({}, {"minProperties": 1}, "root: violates minProperties 1"),
        ({"a": 1}, {"maxProperties": 0}, "root: violates maxProperties 0"),
        ("a", {"pattern": "b"}, "root: must match b"),
        (3, {"multipleOf": 2}, "root: must be a multiple of 2"),
        ({"a": ["x"]}, {"properties": {"a": {"items": {"type": "integer"}}}}, "root.a[0]: must be integer"),
        ([1, 1], {"uniqueItems": True}, "root: contains duplicates"),
        ({}, {"required": ["a", "b"]}, "root: must have a, b"),
        ({"x": 1}, {"additionalProperties": False}, "root: must not have x"),
        ({"x": 1}, {"properties": {"x": False}}, "root.x: no value is allowed"),
        (1, {"anyOf": [{"type": "string"}]}, "root: matches no allowed form (of 1)"),
        (1, {"oneOf": [{}, {}]}, "root: must match exactly one allowed form (of 2)"),
        (1, {"allOf": [{"minimum": 2}]}, "root: violates minimum 2"),
        (1, {"not": {}}, "root: matches a form that is not allowed"),
        ({"name": 1, "kids": [{}]}, NESTED, "root.kids[0]: must have name"),
        (1, DEEP, "root: nested too deeply"),
    ],
)  # fmt: skip
def test_what_does_not_fit_is_reported_with_its_place(value: Any, schema: Any, said: str) -> None:
    assert find_mismatch(value, schema) == said


def test_a_schema_for_an_answer_is_an_objects_and_can_be_read() -> None:
    assert find_schema_fault({"properties": {"a": {"pattern": "x", "enum": [1]}}}) == ""
    assert "object" in find_schema_fault([])
    assert "object" in find_schema_fault({"type": "string"})
    assert "invalid pattern" in find_schema_fault({"items": [{"pattern": "("}]})
    deep: Any = {}
    for _ in range(100):
        deep = {"not": deep}
    assert "too deep" in find_schema_fault(deep)
