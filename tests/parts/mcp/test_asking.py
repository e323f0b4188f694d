"""Requests from servers.

Forms for the user, questions to the model, prompts, resources; and their limits.
"""

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from clew.agent.deps import Granted, Question, Refused, Verdict
from clew.agent.hooks.outcome import NOTHING, HookOutcome
from clew.agent.models import serialise_questions
from clew.parts.mcp import elicit
from clew.parts.mcp.asking import ServerQuestions, conversation
from clew.permissions.decision import Decision
from clew.providers.base import Failure
from clew.testing.server import serving
from tests.agent.world import allowed, asked, denied
from tests.fronts.headless.clew_process import clew, transcripts
from tests.fronts.terminal.terminal import Terminal
from tests.parts.mcp.test_sessions import calls, given, results
from tests.parts.mcp.yard import entry, yard
from tests.requirements import requirement

FORM = {
    "message": "Where to?",
    "requestedSchema": {
        "type": "object",
        "required": ["city"],
        "properties": {
            "city": {"type": "string", "title": "City", "description": "A place"},
            "class": {"type": "string", "enum": ["a", "b"], "enumNames": ["First", "Second"]},
            "days": {"type": "integer", "default": 3},
            "meal": {"type": "boolean"},
            "extras": {"type": "array", "items": {"enum": ["sun", "sea"]}},
            "size": {"type": "number", "oneOf": [{"const": 1.5, "title": "Big"}, {}]},
        },
    },
}


def form(**properties: Any) -> dict[str, Any]:
    return {"message": "?", "requestedSchema": {"type": "object", "properties": properties}}


# -- forms


def test_a_form_is_questions_under_the_servers_name() -> None:
    questions = elicit.make_questions("travel", FORM)
    assert all(one["question"].startswith("[MCP server travel] Where to?") for one in questions)
    labels = [[option["label"] for option in one["options"]] for one in questions]
    assert labels[0] == [elicit.EMPTY, elicit.DECLINE]
    assert labels[1] == ["First", "Second", elicit.DECLINE]
    assert labels[2] == ["3", elicit.EMPTY, elicit.DECLINE]
    assert labels[3] == ["Yes", "No", elicit.DECLINE]
    assert labels[4] == ["sun", "sea", elicit.DECLINE]
    assert questions[4]["multiSelect"]
    assert labels[5] == ["Big", elicit.DECLINE]


def test_answers_become_what_the_schema_wants() -> None:
    answers = ["Rome", "Second", "7", "Yes", "sun, sea", "Big"]
    assert elicit.read_form(FORM, answers) == {
        "city": "Rome",
        "class": "b",
        "days": 7,
        "meal": True,
        "extras": ["sun", "sea"],
        "size": 1.5,
    }


def test_what_is_left_out_or_does_not_fit_is_left_out() -> None:
    answers = ["Rome", "Third", "many", "perhaps", ["moon"], elicit.EMPTY]
    assert elicit.read_form(FORM, answers) == {"city": "Rome"}
    assert elicit.read_form(FORM, [elicit.EMPTY, *answers[1:]]) is None
    assert elicit.read_form(FORM, [elicit.DECLINE, *answers[1:]]) is None
    assert elicit.read_form(FORM, [None, *answers[1:]]) is None
    assert elicit.read_form(form(n={"type": "number"}), ["2.5"]) == {"n": 2.5}


@pytest.mark.parametrize(
    ("params", "words"),
    [
        (form(password={"type": "string"}), "secret"),
        (form(x={"type": "string", "title": "Your API key"}), "secret"),
        (form(x={"type": "string", "description": "the access token, please"}), "secret"),
        (form(x={"type": "string", "format": "password"}), "secret"),
        ({**form(x={"type": "string"}), "message": "Paste your password"}, "secret"),
        ({"message": "x"}, "fields"),
        (form(**{f"f{n}": {} for n in range(20)}), "fields"),
        ({"mode": "url", "url": "javascript:alert(1)"}, "not an http or https URL"),
        ({"mode": "url", "url": 3}, "not an http or https URL"),
        ({"mode": "url", "url": "http://:99999/"}, "not an http or https URL"),
        ({"mode": "url", "url": "http://x/\n"}, "not an http or https URL"),
    ],
)
def test_what_asks_for_a_secret_is_not_even_shown(params: dict[str, Any], words: str) -> None:
    assert words in elicit.why_refused(params)


def test_what_may_be_asked_is() -> None:
    assert elicit.why_refused(FORM) == ""
    assert elicit.why_refused({"mode": "url", "url": "https://x.example/connect"}) == ""
    (one,) = elicit.make_questions(
        "s", {"mode": "url", "url": "https://x.example/c", "message": "m"}
    )
    assert "https://x.example/c" in one["question"]
    assert elicit.options(
        {"type": "string", "oneOf": 3, "enum": ["x"], "enumNames": ["1", "2"]}
    ) == (
        ["x", elicit.DECLINE],
        False,
    )


# -- who answers


class Person:
    """Answers requests; `asked` is what it saw."""

    def __init__(self, *answers: Any, verdict: Verdict | None = None) -> None:
        self.answers = list(answers)
        self.verdict = verdict
        self.asked: list[Question] = []

    async def ask(self, question: Question) -> Verdict:
        self.asked.append(question)
        if self.verdict is not None:
            return self.verdict
        questions = question.block["input"]["questions"]
        said = dict(zip([one["question"] for one in questions], self.answers, strict=True))
        return Granted(input=question.block["input"] | {"answers": said})


def answering(
    person: Person, judge: Decision | None = None, answer: Any = "word"
) -> ServerQuestions:
    async def ask_model(prompt: str, *, system: str = "", **_: Any) -> Any:
        return answer if not isinstance(answer, str) else f"{answer}: {system}{prompt}"

    async def nobody_hears(event: str, fields: dict[str, Any]) -> HookOutcome:
        return NOTHING

    return ServerQuestions(
        person.ask,
        lambda _: judge or asked(),
        ask_model,
        lambda: "id",
        nobody_hears,
        lambda _event, _fields: None,
    )


async def test_a_user_fills_the_form_in_and_the_server_gets_it(tmp_path: Path) -> None:
    person = Person("red")
    helpers = answering(person).helpers(tuple, lambda *_: None)
    async with yard(tmp_path, {"one": entry("rude")}, helpers=helpers) as here:
        said = json.loads(str((await here.use("mcp__one__elicit")).content))
        assert said == {"action": "accept", "content": {"color": "red"}}
        secret = json.loads(
            str((await here.use("mcp__one__elicit", text="Your password?")).content)
        )
        assert secret == {"action": "decline"}
    (question,) = person.asked
    assert question.kind == "choices"
    assert "MCP server one" in question.block["input"]["questions"][0]["question"]


@pytest.mark.parametrize(
    ("person", "params", "action"),
    [
        (Person(verdict=Refused(words="no")), FORM, "decline"),
        (Person(verdict=Refused(words="no", stop=True)), FORM, "cancel"),
        (Person(verdict=Granted()), FORM, "decline"),
        (Person(elicit.VISITED), {"mode": "url", "url": "https://x"}, "accept"),
        (Person(elicit.DECLINE), {"mode": "url", "url": "https://x"}, "decline"),
    ],
)
async def test_no_answer_is_a_no(person: Person, params: dict[str, Any], action: str) -> None:
    assert (await answering(person).elicit("s", params))["action"] == action


MESSAGES = [{"role": "user", "content": {"type": "text", "text": "Say."}}]


async def test_the_model_is_asked_for_a_server_by_a_rule_or_a_user() -> None:
    person = Person(verdict=Granted())
    params = {"messages": MESSAGES, "systemPrompt": "Be kind. "}
    said = await answering(person).sample("s", params)
    assert said["content"]["text"] == "word: Be kind. Say."
    assert person.asked[0].block["name"] == "mcp__s__sampling"
    await answering(person, allowed()).sample("s", params)
    assert len(person.asked) == 1
    refused = await answering(person, denied()).sample("s", params)
    assert "not permitted" in refused.message
    nobody = await answering(Person(verdict=Refused(words="no"))).sample("s", params)
    assert "user rejected" in nobody.message
    odd = await answering(person).sample("s", {"messages": [{"role": "user", "content": {}}]})
    assert "only text messages" in odd.message
    failing = answering(person, allowed(), Failure(kind="status", message="down"))
    assert "did not respond" in (await failing.sample("s", params)).message


async def test_a_server_cannot_have_the_model_asked_without_end() -> None:
    helper = answering(Person(), allowed())
    answers = [await helper.sample("s", {"messages": MESSAGES}) for _ in range(51)]
    assert "limit of 50" in answers[-1].message


def test_several_messages_are_one_prompt() -> None:
    more = [*MESSAGES, {"role": "assistant", "content": [{"type": "text", "text": "Said."}]}]
    assert conversation(more) == "User: Say.\n\nAssistant: Said."
    assert conversation("no") is None


async def test_a_user_is_asked_one_thing_at_a_time() -> None:
    at_once, most = 0, 0

    async def ask(_: Question) -> Verdict:
        nonlocal at_once, most
        at_once += 1
        most = max(most, at_once)
        await asyncio.sleep(0)
        at_once -= 1
        return Granted()

    asking = serialise_questions(ask)
    question = Question(block={}, title="", decision=asked(), why="")
    await asyncio.gather(*(asking(question) for _ in range(5)))
    assert most == 1


# -- prompts, resources and /mcp, as a person types them

PLAN = {"scenario": 1, "answers": [{"text": "Done.", "times": "always"}]}


def said_to_model(home: Path, text: str, **servers: Any) -> tuple[str, str]:
    with serving(PLAN, strict=True) as server:
        done = clew(home, server.url, "-p", text, "--mcp-config", given(**servers))
        bodies = [json.dumps(request.body["messages"]) for request in server.requests]
    return "".join(bodies), done.stdout + done.stderr


def test_a_servers_prompt_is_a_command(tmp_path: Path) -> None:
    sent, shown = said_to_model(tmp_path, '/mcp__memo__review "a b.py" kind', memo=entry("honest"))
    assert "Review {'file': 'a b.py', 'tone': 'kind'}." in sent, shown
    sent, shown = said_to_model(tmp_path, "/mcp__memo__review", memo=entry("honest"))
    assert sent == ""
    assert (
        "missing file (usage: /mcp__memo__review <file> [tone]); values for file: main.py, map.py"
        in shown
    )


@requirement("R152", "R221")
def test_a_servers_prompt_is_a_skill_that_the_model_finds_and_loads(tmp_path: Path) -> None:
    load = {"skill": "mcp__memo__review", "args": "a.py kind"}
    with serving(calls(("Skill", load)), strict=True) as server:
        clew(
            tmp_path, server.url, "-p", "go", "--mcp-config", given(memo=entry("honest")),
            "--allowedTools", "Skill(mcp__memo__review)",
        )  # fmt: skip
        first, second = (json.dumps(request.body["messages"]) for request in server.requests)
    assert "- mcp__memo__review: " in first
    assert "Review {'file': 'a.py', 'tone': 'kind'}." in second


def test_a_servers_prompt_names_no_file_for_clew_to_read(tmp_path: Path) -> None:
    (tmp_path / "work").mkdir()
    (tmp_path / "work" / "secret.txt").write_text("the combination is 1234", "utf-8")
    sent, _ = said_to_model(tmp_path, "/mcp__memo__review @secret.txt", memo=entry("honest"))
    assert "@secret.txt" in sent
    assert "1234" not in sent


def test_a_resource_is_brought_along_by_its_name(tmp_path: Path) -> None:
    sent, _ = said_to_model(tmp_path, "Look at @memo:memo://one please", memo=entry("honest"))
    assert "the memo" in sent
    sent, _ = said_to_model(tmp_path, "Look at @other:memo://one please", memo=entry("honest"))
    assert "the memo" not in sent


def test_what_a_server_says_of_itself_is_told_once_and_as_its_own(tmp_path: Path) -> None:
    sent, _ = said_to_model(tmp_path, "hello", memo=entry("honest"))
    assert sent.count("Use echo to be heard.") == 1
    assert "permit nothing" in sent
    with serving(PLAN, strict=True) as server:
        clew(tmp_path, server.url, "-p", "-c", "again", "--mcp-config", given(memo=entry("honest")))
        assert json.dumps(server.requests[0].body).count("Use echo to be heard.") == 1


def test_a_resource_that_changed_since_it_was_read_is_reported(tmp_path: Path) -> None:
    reading = ("ReadMcpResourceTool", {"server": "memo", "uri": "memo://one"})
    with serving(calls(reading), strict=True) as server:
        clew(
            tmp_path, server.url, "-p", "go", "--mcp-config", given(memo=entry("honest")),
            "--allowedTools", "ReadMcpResourceTool",
        )  # fmt: skip
        assert "memo://one of memo" in json.dumps(server.requests[-1].body["messages"])


def test_what_a_server_logs_is_kept_for_the_user(tmp_path: Path) -> None:
    _, shown = said_to_model(tmp_path, "/mcp log memo", memo=entry("honest"))
    assert "info: level info" in shown


def test_structured_content_is_recorded_for_programs(tmp_path: Path) -> None:
    with serving(calls(("mcp__memo__structured", {})), strict=True) as server:
        clew(
            tmp_path, server.url, "-p", "go", "--mcp-config", given(memo=entry("rude")),
            "--allowedTools", "mcp__memo",
        )  # fmt: skip
    (path,) = transcripts(tmp_path)
    assert '"mcpMeta":{"structuredContent":{"degrees":21}}' in path.read_text("utf-8")


def test_mcp_shows_servers_and_what_they_offer(tmp_path: Path) -> None:
    _, shown = said_to_model(tmp_path, "/mcp", memo=entry("honest"))
    assert "memo  connected: " in shown
    _, shown = said_to_model(tmp_path, "/mcp nobody", memo=entry("honest"))
    assert 'Unknown server "nobody"' in shown


def test_a_question_nobody_can_answer_is_declined_and_the_turn_continues(tmp_path: Path) -> None:
    with serving(calls(("mcp__memo__elicit", {})), strict=True) as server:
        done = clew(
            tmp_path, server.url, "-p", "go", "--mcp-config", given(memo=entry("rude")),
            "--allowedTools", "mcp__memo",
        )  # fmt: skip
        (result,) = results(server)
    assert done.stdout == "Done.\n"
    assert json.loads(result) == {"action": "decline"}


def test_a_form_is_filled_in_at_the_terminal(tmp_path: Path) -> None:
    with (
        serving(calls(("mcp__memo__elicit", {})), strict=True) as server,
        Terminal(
            tmp_path, server.url, "--mcp-config", given(memo=entry("rude")),
            "--allowedTools", "mcp__memo",
        ) as terminal,
    ):  # fmt: skip
        terminal.expect("> ")
        terminal.type("go\n")
        terminal.expect("[MCP server memo] Which color?")
        terminal.expect("1 = red")
        terminal.expect("your own answer: ")
        terminal.type("1\n")
        terminal.expect("Done.")
        terminal.expect("> ")
        terminal.type("\x04")
        assert terminal.end() == 0
        (result,) = results(server)
    assert json.loads(result) == {"action": "accept", "content": {"color": "red"}}
