"""No format of a secret comes out of an export, wherever in a session it stands."""

import html
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.commands.sessions.place import Place
from tests.record.transcript.build import SESSION, encoded, said, user
from tests.requirements import requirement
from tests.system.config.secret_samples import SAMPLES, Sample

FORMS = ("markdown", "html", "json", "jsonl")


def call(number: int, **given: Any) -> dict[str, Any]:
    return {"type": "tool_use", "id": f"toolu_{number}", "name": "Bash", "input": given}


def result(number: int, content: Any) -> dict[str, Any]:
    return {"type": "tool_result", "tool_use_id": f"toolu_{number}", "content": content}


def session() -> list[dict[str, Any]]:
    """Each sample as a prompt, in an answer, as a command, and in its result as text and as lines."""
    lines: list[dict[str, Any]] = []
    parent = None
    for n, sample in enumerate(SAMPLES):
        text = sample.text
        lines += [
            user(f"u{n}", parent, f"Look at this:\n{text}\nthank you"),
            said(f"a{n}", f"u{n}", {"type": "text", "text": f"It says\n```\n{text}\n```"}),
            said(f"c{n}", f"a{n}", call(n, command=text, description="runs it")),
            user(
                f"r{n}",
                f"c{n}",
                [result(n, [{"type": "text", "text": f"{text}\n"}])],
                toolUseResult={"stdout": text, "structuredPatch": [{"lines": text.split("\n")}]},
            ),
        ]
        parent = f"r{n}"
    return lines


def strings(value: Any) -> Iterator[str]:
    match value:
        case str():
            yield value
        case dict():
            for key, item in value.items():
                yield key
                yield from strings(item)
        case list():
            for item in value:
                yield from strings(item)


def readings(form: str, page: str) -> str:
    """A page as it is, and as whoever opens it reads it."""
    match form:
        case "html":
            return page + html.unescape(page)
        case "json":
            return page + "\n".join(strings(json.loads(page)))
        case "jsonl":
            lines = [json.loads(line) for line in page.splitlines()]
            return page + "\n".join(strings(lines))
    return page


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    place = Place(tmp_path_factory.mktemp("export"))
    place.write(session())
    return {form: readings(form, place.clew("export", SESSION, "--format", form)) for form in FORMS}


def left_in(text: str, secret: str) -> bool:
    """Whether a secret stands in a text, or one half of it."""
    half = len(secret) // 2
    return secret[: half + 1] in text or secret[half:] in text


@pytest.mark.no_cover
@requirement("R154")
@pytest.mark.parametrize("sample", SAMPLES, ids=lambda sample: sample.name)
@pytest.mark.parametrize("form", FORMS)
def test_no_format_of_a_secret_comes_out(form: str, sample: Sample, pages: dict[str, str]) -> None:
    assert not [secret for secret in sample.secrets if left_in(pages[form], secret)]


def test_there_are_many_formats_and_the_session_holds_each(tmp_path: Path) -> None:
    assert len({sample.name for sample in SAMPLES}) == len(SAMPLES) > 150
    place = Place(tmp_path)
    place.write(session())
    raw = readings("jsonl", place.clew("export", SESSION, "--format", "jsonl", "--raw"))
    for sample in SAMPLES:
        assert all(secret in raw for secret in sample.secrets), sample.name


KEY = "gh" + "p_" + "a1B2c3D4e5F6" * 3


@pytest.mark.parametrize("form", FORMS)
def test_titles_names_of_files_and_subagents_are_masked_too(tmp_path: Path, form: str) -> None:
    place = Place(tmp_path)
    path = place.write(
        [
            user("u", None, f"read {KEY}", gitBranch=f"try-{KEY}"),
            said("c", "u", call(1, file_path=f"/x/{KEY}.txt")),
            user("r", "c", [result(1, "no such file")]),
            {"type": "custom-title", "customTitle": f"About {KEY}", "sessionId": SESSION},
            {
                "type": "file-history-snapshot",
                "snapshot": {"trackedFileBackups": {f"/x/{KEY}.txt": {"version": 1}}},
            },
        ]
    )
    agents = path.with_suffix("") / "subagents"
    agents.mkdir(parents=True)
    (agents / "agent-a7.jsonl").write_bytes(
        encoded([user("s", None, f"dig {KEY}", isSidechain=True)])
    )
    meta = {"agentType": "digger", "description": f"Dig for {KEY}"}
    (agents / "agent-a7.meta.json").write_text(json.dumps(meta), "utf-8")
    page = place.clew("export", SESSION, "--format", form)
    assert KEY[4:] not in page
    assert "Dig for ghp_[masked]" in page
