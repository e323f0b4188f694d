"""The scenario format: parsed strictly, and every error names its place."""

from typing import Any

import pytest

from clew.testing.scenario import ScenarioError, ScriptedBlock, from_value, parse
from clew.testing.scenario_steps import RuleHost

SAME_JSON = b"""\xef\xbb\xbf{
  "scenario": 1,
  "answers": [
    {"when": {"user": {"regex": "^hi"}}, "content": ["a", {"tool": "Bash", "input": {"x": 1}}]},
    {"status": 529, "times": 2, "headers": {"retry-after": 1}}
  ]
}"""
SAME_YAML = b"""\
scenario: 1
answers:
  - when: {user: {regex: ^hi}}
    content:
      - a
      - tool: Bash
        input: {x: 1}
  - status: 529
    times: 2
    headers: {retry-after: 1}
"""


def wrong(answer: Any, group: str = "answers") -> str:
    with pytest.raises(ScenarioError) as caught:
        from_value({"scenario": 1, group: [answer]})
    return str(caught.value)


def said(data: bytes, source: str) -> str:
    with pytest.raises(ScenarioError) as caught:
        parse(data, source)
    return str(caught.value)


def test_json_and_yaml_say_the_same() -> None:
    read = parse(SAME_JSON, "a.json")
    assert read == parse(SAME_YAML, "a.yaml") == parse(SAME_YAML, "A.YML")
    assert isinstance(read.answers[0].content, list)
    assert read.answers[0].content[1] == ScriptedBlock(tool="Bash", input={"x": 1})


@pytest.mark.parametrize(
    ("data", "source", "complaint"),
    [
        (b'{"scenario": 1,\n"answers": ]}', "a.json", "a.json:2: Expecting value"),
        (b'{"scenario": 1, "scenario": 1}', "a.json", "a.json: duplicate key 'scenario'"),
        (b"[" * 100_000, "a.json", "a.json: nested too deeply"),
        (b"a\nb\xff", "a.json", "a.json:2: not UTF-8: invalid start byte"),
        (b"scenario: 1\nanswers: [", "a.yaml", "a.yaml:2: "),
        (b"scenario: 1\nscenario: 1", "a.yaml", "a.yaml:2: duplicate key 'scenario'"),
        (b"a: &a [1]\nb: [*a, *a]\nc: {[1, 2]: 3}", "a.yaml", "a.yaml:3: found unhashable key"),
        (b"\x00", "a.yaml", "a.yaml: unacceptable character"),
        (b"[" * 1500, "a.yaml", "a.yaml: nested too deeply"),
        (b"", "a.yaml", "a.yaml: scenario: expected `object`, got `null`"),
        (rb'{"scenario": 1, "name": "\ud83d"}', "a.json", "a.json: a lone surrogate"),
        (b"scenario: 1\nname: 2026-01-01", "a.yaml", "a.yaml: not a JSON value (try quotes): Object of type date"),
        (b"a: &a [*a]", "a.yaml", "a.yaml: not a JSON value (try quotes): Circular"),
        (b"{}", "a.json", "a.json: scenario: object missing required field `scenario`"),
        (b"scenario: 2", "a.yaml", "a.yaml:1: scenario: invalid enum value 2"),
    ],
)  # fmt: skip
def test_what_cannot_be_read_is_said_with_its_line(
    data: bytes, source: str, complaint: str
) -> None:
    assert said(data, source).startswith(complaint)


@pytest.mark.parametrize(
    "answer", [{"text": "a\ud83d"}, {"text": "x", "model": "\ud83d"}, {"text": "x", "\ud83d": 1}]
)
def test_half_a_character_is_refused_in_a_scenario_of_python_too(answer: dict[str, Any]) -> None:
    with pytest.raises(ScenarioError, match="a lone surrogate"):
        from_value({"scenario": 1, "answers": [answer]})


@pytest.mark.parametrize("source", ["demo.yaml", "demo.json"])
def test_a_wrong_key_is_named_with_line_path_and_the_nearest(source: str) -> None:
    data = b'{"scenario": 1,\n "answers": [\n  {"text": "a"},\n  {"txet": "b"}]}'
    assert said(data, source) == (
        f'{source}:4: answers[1].txet: unknown key (did you mean "text"?)'
    )


def test_a_complaint_about_an_absent_key_has_the_line_of_its_holder() -> None:
    data = b"scenario: 1\nanswers:\n  - text: a\n  -\n    error: {type: x}\n"
    assert said(data, "x.yaml").startswith("x.yaml:5: answers[1].error: requires a status")
    data = b"scenario: 1\nanswers:\n  - text: a\n    stop_reason: 3\n"
    assert said(data, "x.yaml").startswith("x.yaml:4: answers[0].stop_reason: expected `str")


def test_json_that_is_no_yaml_is_complained_about_without_a_line() -> None:
    assert said(b'{"scenario": 1,\n"answrs": "\x7f"}', "x.json") == (
        'x.json: answrs: unknown key (did you mean "answers"?)'
    )


@pytest.mark.parametrize("place", ["answers[0].text[1]", "answers.x", "scenario.x", "nowhere"])
def test_a_path_that_leads_nowhere_ends_at_its_last_known_line(place: str) -> None:
    from clew.testing.scenario import line_of

    expected = {"answers[0].text[1]": 3, "answers.x": 2, "scenario.x": 1, "nowhere": None}
    assert line_of("scenario: 1\nanswers:\n  - text: a\n", place) == expected[place]


@pytest.mark.parametrize(
    ("answer", "complaint"),
    [
        ({}, "answers[0]: empty answer"),
        ({"text": "a", "body": "b"}, "answers[0]: an answer must have one body, got text and body"),
        ({"body": "a", "usage": {}}, "answers[0].usage: only allowed with text or content"),
        ({"text": "a", "status": 500, "usage": {}}, "answers[0].status: must be 200"),
        ({"error": {}}, "answers[0].error: requires a status"),
        ({"input_tokens": 3}, "answers[0].input_tokens: only allowed under count_tokens"),
        ({"text": "a", "delta_chars": 0}, "answers[0].delta_chars: expected `int` >= 1"),
        ({"text": "a", "zzzzzz": 0}, "answers[0].zzzzzz: unknown key"),
        ({"content": [{}]}, "answers[0].content[0]: a block must have exactly one of text, thinking"),
        ({"content": [{"text": "a", "tool": "b"}]}, "answers[0].content[0]: a block must have exactly one of"),
        ({"content": ["x", {"text": "a", "id": "b"}]}, "answers[0].content[1].id: only allowed with tool or server_tool"),
        ({"content": [{"tool": "a", "input": 1, "input_json": ""}]}, "answers[0].content[0]: input and input_json"),
        ({"text": "a", "faults": [{"cut": "end"}]}, "answers[0].faults[0]: a fault must have exactly one position"),
        ({"text": "a", "faults": [{"at": "headers"}]}, "answers[0].faults[0]: a fault must have exactly one action"),
        ({"text": "a", "faults": [{"at": "headers", "insert": "x"}]}, "answers[0].faults[0]: only stall_s and cut"),
        ({"text": "a", "faults": [{"after_bytes": 1, "insert_base64": "x"}]}, "answers[0].faults[0].insert_base64: not base64"),
        ({"body_base64": "===="}, "answers[0].body_base64: not base64"),
        ({"text": "a", "when": {"user": {"regex": "("}}}, "answers[0].when.user.regex: missing )"),
        ({"text": "a", "when": {"tool_result": {"content": {"regex": "["}}}}, "answers[0].when.tool_result.content.regex: "),
    ],
)  # fmt: skip
def test_an_answer_that_contradicts_itself_is_refused(answer: Any, complaint: str) -> None:
    assert wrong(answer).startswith(complaint)


def test_count_tokens_gives_counts_or_errors_only() -> None:
    assert "only allowed under answers" in wrong({"text": "a"}, "count_tokens")
    from_value({"scenario": 1, "count_tokens": [{"status": 500}, {"input_tokens": 1}]})


def test_conditions_of_every_form_are_accepted() -> None:
    when = {"user": "a", "system": {"is": "b"}, "tool_result": {"content": {"regex": "a+"}}}
    read = from_value({"scenario": 1, "answers": [{"when": when, "text": "x"}]})
    assert read.answers[0].when is not None


def test_a_function_may_be_the_model() -> None:
    def answer(body: dict[str, Any]) -> dict[str, Any]:
        return {"text": f"{body['model']} heard {len(body['messages'])}"}

    host = RuleHost(answer)
    body = {"model": "m", "messages": [{"role": "user", "content": "hi"}]}
    place, reply = host.respond("answers", body)
    assert (place, reply.status) == ("request 1", 200)
    place, reply = host.respond("count_tokens", body)
    assert (place, reply.status) == ("request 2", 200)
    assert host.unused() == []
