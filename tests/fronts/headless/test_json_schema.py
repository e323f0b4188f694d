"""Answers that match a schema, with the real process."""

import json
from pathlib import Path
from typing import Any

import pytest

from clew.testing.server import serving
from tests.fronts.headless.clew_process import clew, transcripts
from tests.fronts.headless.host_process import Hosted

SCHEMA = {"properties": {"n": {"type": "integer"}}, "required": ["n"]}
GOOD = {"content": [{"tool": "StructuredOutput", "input": {"n": 4}}]}
BAD = {"content": [{"tool": "StructuredOutput", "input": {"n": "four"}}]}


def run(home: Path, answers: list[Any], *args: str) -> tuple[int, Any, list[dict[str, Any]]]:
    flags = ("--json-schema", json.dumps(SCHEMA), "--output-format", "json")
    with serving({"scenario": 1, "answers": answers}, strict=True) as server:
        done = clew(home, server.url, "-p", "how many", *flags, *args)
        return done.returncode, json.loads(done.stdout), [r.body for r in server.requests]


def test_the_answer_is_data_that_fits(tmp_path: Path) -> None:
    code, said, sent = run(tmp_path, [BAD, GOOD])
    assert (code, said["structured_output"], said["result"]) == (0, {"n": 4}, '{"n":4}')
    tool = next(tool for tool in sent[0]["tools"] if tool["name"] == "StructuredOutput")
    assert tool["input_schema"]["required"] == ["n"]
    assert "root.n: must be integer" in json.dumps(sent[1]["messages"][-1])


def test_words_alone_are_asked_about_once(tmp_path: Path) -> None:
    code, said, sent = run(tmp_path, [{"text": "Four."}, GOOD])
    assert (code, said["structured_output"]) == (0, {"n": 4})
    assert "Call StructuredOutput" in json.dumps(sent[1]["messages"][-1])


def test_an_accepted_result_needs_no_further_request(tmp_path: Path) -> None:
    code, said, sent = run(tmp_path, [GOOD], "--max-turns", "1")
    assert (code, said["subtype"], said["structured_output"]) == (0, "success", {"n": 4})
    assert (len(sent), said["stop_reason"], said["num_turns"]) == (1, "tool_use", 2)


def test_a_stop_hook_can_still_ask_for_more_after_the_result(tmp_path: Path) -> None:
    command = "grep -q '\"stop_hook_active\":true' || (echo 'Count again.' >&2; exit 2)"
    hooks = {"Stop": [{"hooks": [{"type": "command", "command": command}]}]}
    better = {"content": [{"tool": "StructuredOutput", "input": {"n": 5}}]}
    code, said, sent = run(tmp_path, [GOOD, better], "--settings", json.dumps({"hooks": hooks}))
    assert (code, said["structured_output"]) == (0, {"n": 5})
    assert "Count again." in json.dumps(sent[1]["messages"][-1])


@pytest.mark.parametrize("answers", [[{"text": "Four."}, {"text": "Four!"}], [BAD] * 5])
def test_what_never_fits_is_an_error_of_the_run(tmp_path: Path, answers: list[Any]) -> None:
    code, said, _ = run(tmp_path, answers)
    assert (code, said["subtype"]) == (1, "error_max_structured_output_retries")
    assert said["terminal_reason"] == "structured_output_retry_exhausted"
    assert "structured_output" not in said


def test_results_that_never_fit_end_the_turn_without_an_interruption(tmp_path: Path) -> None:
    code, said, sent = run(tmp_path, [BAD] * 5)
    assert (code, len(sent)) == (1, 5)
    # The prompt and five results.
    assert (said["num_turns"], said["stop_reason"]) == (6, "tool_use")
    (path,) = transcripts(tmp_path)
    assert "interrupted" not in path.read_text("utf-8")


def test_a_result_that_fits_after_failures_counts(tmp_path: Path) -> None:
    code, said, _ = run(tmp_path, [*[BAD] * 4, GOOD])
    assert (code, said["structured_output"]) == (0, {"n": 4})


def test_failures_are_counted_for_each_turn(tmp_path: Path) -> None:
    flags = ("--json-schema", json.dumps(SCHEMA))
    plan = {"scenario": 1, "answers": [*[BAD] * 4, GOOD, BAD, GOOD]}
    with serving(plan, strict=True) as server, Hosted(tmp_path, server.url, *flags) as host:
        for _ in range(2):
            host.say("how many")
            assert host.result()["structured_output"] == {"n": 4}
        assert host.end() == 0


@pytest.mark.parametrize(
    "schema", ["{", "nowhere.json", "[]", '{"type": "array"}', '{"pattern": "("}']
)
def test_a_schema_that_is_none_is_said_before_anything_is_asked(
    tmp_path: Path, schema: str
) -> None:
    done = clew(tmp_path, "http://127.0.0.1:1", "-p", "x", "--json-schema", schema)
    assert done.returncode == 2
    assert "--json-schema" in done.stderr
