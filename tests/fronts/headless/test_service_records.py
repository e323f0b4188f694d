"""Requirements about limits and attempts, checked in requests and messages of the program."""

import json
from base64 import b64encode
from pathlib import Path
from typing import Any

from clew.engine import Target, validate_body
from clew.testing.server import serving
from tests.agent.tools.pictures import png
from tests.fronts.headless.clew_process import clew
from tests.fronts.headless.host_process import Hosted
from tests.fronts.headless.test_told_records import FINE, SESSION, left, said
from tests.requirements import requirement

Json = dict[str, Any]
# A model that is given a budget for its thoughts.
MODEL = "claude-sonnet-4-20250514"


@requirement("R075", "R234")
def test_pauses_between_attempts_are_drawn_below_a_bound_that_doubles(tmp_path: Path) -> None:
    plan = {"scenario": 1, "answers": [{"status": 529, "times": "always"}]}
    with serving(plan) as server, Hosted(tmp_path, server.url) as host:
        host.say("go")
        tries = [host.until(lambda f: f.get("subtype") == "api_retry") for _ in range(2)]
        assert host.ask("interrupt")["subtype"] == "success"
        host.result()
    assert [each["attempt"] for each in tries] == [1, 2]
    assert 0 <= tries[0]["retry_delay_ms"] <= 1000
    assert 0 <= tries[1]["retry_delay_ms"] <= 2000


def refused(input_tokens: int, max_tokens: int) -> Json:
    message = (
        "input length and `max_tokens` exceed context limit: "
        f"{input_tokens} + {max_tokens} > 200000, decrease input length or `max_tokens` and try again"
    )
    return {"status": 400, "error": {"type": "invalid_request_error", "message": message}}


@requirement("R235", "R078")
def test_an_answer_is_given_the_room_that_is_left(tmp_path: Path) -> None:
    plan = {"scenario": 1, "answers": [refused(195_000, 32_000), {"text": "Fits."}]}
    with serving(plan) as server:
        done = clew(tmp_path, server.url, "-p", "go", "--model", MODEL)
        rooms = [request.body["max_tokens"] for request in server.requests]
    assert done.stdout == "Fits.\n", done.stderr
    # A thousand tokens stay free.
    assert rooms[1] == 200_000 - 195_000 - 1000 < rooms[0]


@requirement("V8")
def test_a_request_keeps_the_limits_of_the_service(tmp_path: Path) -> None:
    def picture(data: bytes, media_type: str = "image/png") -> Json:
        source = {"type": "base64", "media_type": media_type, "data": b64encode(data).decode()}
        return {"type": "image", "source": source}

    pdf = picture(b"%PDF-1.4\n" + b"0" * (33 << 20), "application/pdf") | {"type": "document"}
    left(
        tmp_path,
        said("user", 1, [picture(png(9000, 10)), {"type": "text", "text": "WIDE"}]),
        said("assistant", 2, "one"),
        said("user", 3, [picture(png(40, 30) + b"0" * (11 << 20))]),
        said("assistant", 4, "two"),
        said("user", 5, [pdf]),
        said("assistant", 6, "three"),
        said("user", 7, [picture(png(40, 30))]),
        said("assistant", 8, "four"),
    )
    with serving(FINE) as server:
        done = clew(
            tmp_path, server.url, "-p", "on", "--resume", SESSION, "--model", MODEL,
            "--max-thinking-tokens", "20000", environ={"CLEW_MAX_OUTPUT_TOKENS": "9000"},
        )  # fmt: skip
        body = server.requests[-1].body
    assert done.stdout == "Fine.\n", done.stderr
    assert validate_body(body, Target()) == []
    assert body["thinking"]["budget_tokens"] < body["max_tokens"]
    assert len(json.dumps(body)) < 32 << 20
    kinds = [b["type"] for m in body["messages"] for b in m["content"]]
    assert (kinds.count("image"), kinds.count("document")) == (1, 0)
    assert "WIDE" in json.dumps(body["messages"])
