"""The published schema of transcript lines: golden lines and those of the program fit it."""

import json
import subprocess
import sys
from pathlib import Path

import jsonschema

from clew.testing.server import serving
from tests.fronts.headless.clew_process import clew, transcripts
from tests.record.transcript.test_golden import EVERY


def test_every_line_fits_the_schema_that_clew_prints(tmp_path: Path) -> None:
    printed = subprocess.run(
        [sys.executable, "-m", "clew", "config", "schema", "transcript"],
        capture_output=True,
        check=True,
    )
    schema = json.loads(printed.stdout)
    jsonschema.Draft7Validator.check_schema(schema)
    validator = jsonschema.Draft7Validator(schema)
    call = {"tool": "Bash", "input": {"command": "echo hi"}}
    plan = {"scenario": 1, "answers": [{"content": ["I look.", call]}, {"text": "Done."}]}
    with serving(plan, strict=True) as server:
        clew(tmp_path, server.url, "-p", "go", "--allowedTools", "Bash")
    (path,) = transcripts(tmp_path)
    written = [json.loads(line) for line in path.read_bytes().splitlines()]
    assert {"user", "assistant", "request-cost", "last-prompt"} <= {e["type"] for e in written}
    for entry in (*written, *(line.data for line in EVERY)):
        assert list(validator.iter_errors(entry)) == []
    damaged = next(e for e in written if e["type"] == "request-cost") | {"usage": "many"}
    assert [list(e.path) for e in validator.iter_errors(damaged)] == [["usage"]]
