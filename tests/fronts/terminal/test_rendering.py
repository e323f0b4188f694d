"""Output on the real screen: painted as it arrives, once, harmless, and complete when expanded."""

import json
from pathlib import Path

import pytest

from clew.testing.server import serving
from tests.fronts.headless.clew_process import transcripts
from tests.fronts.headless.host_process import Hosted
from tests.fronts.terminal.pictures import looks_like
from tests.fronts.terminal.screen import PLAIN, OnScreen
from tests.fronts.terminal.test_screen import READY
from tests.requirements import requirement

ANSWER = """## What I found

The **first** line is read twice, see [the page](https://example.com/a) and `read()`.

1. Open it
2. Look at
   - the head
   - the tail

| File | Lines |
|------|------:|
| `a.py` | 12 |
| 漢字.py | 1,200 |

```python
def f(x):
    return x + 1
```
Done."""


def says(*content: object) -> dict[str, object]:
    return {"content": list(content)}


def uses(tool: str, **given: object) -> dict[str, object]:
    return {"tool": tool, "input": given}


def scenario(*answers: dict[str, object]) -> dict[str, object]:
    return {"scenario": 1, "answers": [*answers, {"text": "The end.", "times": "always"}]}


@requirement("R214")
def test_an_answer_is_painted(tmp_path: Path) -> None:
    plan = {"scenario": 1, "answers": [{"text": ANSWER}]}
    with serving(plan, strict=True) as server, OnScreen(tmp_path, server.url, rows=34) as screen:
        screen.expect(READY)
        screen.type("look\r")
        screen.expect("Done.")
        looks_like(screen, "markdown")


def test_what_calls_did_is_told_with_their_changes_and_lists(tmp_path: Path) -> None:
    todos = [
        {"content": "look", "status": "completed", "activeForm": "looking"},
        {"content": "mend", "status": "in_progress", "activeForm": "mending"},
    ]
    plan = scenario(
        says(uses("Read", file_path="a.py")),
        says(uses("Edit", file_path="a.py", old_string="x = 1", new_string="x = 2")),
        says(uses("TodoWrite", todos=todos)),
    )
    (tmp_path / "work").mkdir()
    (tmp_path / "work" / "a.py").write_text("def f():\n    x = 1\n    return x\n", "utf-8")
    allowed = ("--allowedTools", "Edit")
    with (
        serving(plan, strict=True) as server,
        OnScreen(tmp_path, server.url, *allowed, rows=30) as screen,
    ):
        screen.expect(READY)
        screen.type("mend it\r")
        screen.expect("The end.")
        looks_like(screen, "calls")


def test_long_output_is_folded_and_ctrl_o_shows_it_whole(tmp_path: Path) -> None:
    plan = scenario(says(uses("Bash", command="seq 1000 1500")))
    env = {"EDITOR": "cp -t ."}
    with (
        serving(plan, strict=True) as server,
        OnScreen(tmp_path, server.url, "--allowedTools", "Bash", env=env) as screen,
    ):
        screen.expect(READY)
        screen.type("count\r")
        screen.expect("… 492 more lines (ctrl+o to expand)")
        screen.expect("The end.")
        assert "1250" not in screen.text
        screen.type("\x0f")
        screen.expect("> 2. Bash: seq 1000 1500")
        screen.type("\r")
        screen.expect("of 501")
        screen.expect("\n1000\n1001\n")
        looks_like(screen, "viewer")
        screen.type("G")
        screen.expect("\n1500\n")
        screen.type("g/12")
        screen.expect("\n/12\n")
        screen.type("00\r")
        screen.expect("\n1200\n1201\n")
        screen.type("n")
        screen.expect("No more matches for 1200")
        screen.type("\x1b[6~")
        screen.expect_gone("\n1200\n")
        # The editor gets all of it.
        screen.type("v")
        pages = tmp_path / "work" / "prompt.md"
        screen.expect(lambda _: pages.exists() and "1500" in pages.read_text("utf-8"))
        assert [int(each) for each in pages.read_text("utf-8").split()] == [*range(1000, 1501)]
        screen.expect_gone("of 501")


def test_verbose_shows_long_output_in_full(tmp_path: Path) -> None:
    plan = scenario(says(uses("Bash", command="seq 1000 1017")))
    with (
        serving(plan, strict=True) as server,
        OnScreen(tmp_path, server.url, "--verbose", "--allowedTools=Bash", rows=34) as screen,
    ):
        screen.expect(READY)
        screen.type("count\r")
        screen.expect("The end.")
        assert all(f"  {number}" in screen.text for number in range(1000, 1018))


def test_escape_leaves_a_collapsed_output_and_the_prompt_goes_on(
    tmp_path: Path,
) -> None:
    command = "seq 3000; echo the last"
    plan = scenario(says(uses("Bash", command=command)))
    with (
        serving(plan, strict=True) as server,
        OnScreen(tmp_path, server.url, "--allowedTools", "Bash") as screen,
    ):
        screen.expect(READY)
        screen.type("print\r")
        screen.expect("The end.")
        screen.expect_rest()
        screen.type("\x0f")
        screen.expect("Show in full")
        screen.type("\r")
        screen.expect("of 3,001")
        screen.type("\x1b[6~")
        screen.expect_gone("\n1\n2\n")
        screen.type("/the last\r")
        screen.expect("\nthe last\n")
        screen.type("\x1b")
        screen.expect_gone("Esc close")
        screen.type("hello")
        screen.expect("> hello\n")


def test_the_entire_session_is_shown_with_nothing_collapsed(tmp_path: Path) -> None:
    (tmp_path / "work").mkdir()
    (tmp_path / "work" / "a.py").write_text("".join(f"a_{n} = {n}\n" for n in range(40)), "utf-8")
    thinks = {"thinking": "It must be in a file. " * 9 + "The last thought."}
    plan = scenario(
        says(thinks, uses("Read", file_path="a.py"), uses("Bash", command="seq 200 300")),
        says(uses("Read", file_path="a.py"), uses("Bash", command="head -1 pipe; touch x")),
    )
    (tmp_path / "work" / "pipe").write_text("", "utf-8")
    with (
        serving(plan, strict=True) as server,
        OnScreen(tmp_path, server.url, rows=40) as screen,
    ):
        screen.expect(READY)
        screen.type("\x0f")
        screen.expect("Nothing to show yet")
        screen.type("print\r")
        screen.expect("1. Yes")
        screen.type("\x0f")
        screen.expect("> 2. Read: a.py\n  3. Bash: seq 200 300\n")
        screen.type("1")
        # It begins at the end, without the call that waits for an answer.
        screen.expect("\n  300\n● Read: a.py\n")
        assert "Interrupted" not in screen.picture
        screen.type("/250\r")
        screen.expect("\n  250\n")
        screen.type("g")
        screen.expect("The last thought.")
        screen.expect("> print\n")
        screen.type("\x1b")
        screen.expect("1. Yes")
        screen.type("y")
        screen.expect("The end.")


@requirement("R215")
def test_after_a_long_answer_the_scrollback_holds_each_line_once(tmp_path: Path) -> None:
    text = "".join(f"- item {n} of it\n" for n in range(1000))
    text += "\n```\n" + "".join(f"code {n} of it\n" for n in range(1000)) + "```\n\nFinished."
    plan = {"scenario": 1, "answers": [{"text": text}]}
    with serving(plan, strict=True) as server, OnScreen(tmp_path, server.url) as screen:
        screen.expect(READY)
        screen.type("count\r")
        screen.expect("Finished.", within_s=60)
        screen.settle()
        said = [row.strip() for row in screen.text.split("\n") if "of it" in row]
    assert said == [
        *(f"• item {n} of it" for n in range(1000)),
        *(f"code {n} of it" for n in range(1000)),
    ]


def test_nothing_that_a_model_or_a_program_says_rules_the_terminal(tmp_path: Path) -> None:
    evil = "\x1b]0;owned\x07\x1b[2J\x1b[5A\u202e"
    (tmp_path / "work").mkdir()
    (tmp_path / "work" / "evil.txt").write_text(f"{evil}from a file\n", "utf-8")
    plan = scenario(says(f"{evil}from a model\n\n", uses("Bash", command="cat evil.txt")))
    with serving(plan) as server, OnScreen(tmp_path, server.url) as screen:
        screen.expect(READY)
        screen.type("be evil\r")
        screen.expect("from a model")
        screen.expect("from a file")
        screen.expect("The end.")
        assert "owned" not in screen.glass.title
        assert b"\x1b]0;owned" not in screen.raw
        assert b"\x1b[2J" not in screen.raw
        assert "\\x1b]0;owned" in screen.text


def test_colors_are_those_of_the_theme_and_none_where_none_are_wanted(tmp_path: Path) -> None:
    plan = {"scenario": 1, "answers": [{"text": ANSWER, "times": "always"}]}
    seen = {}
    told = {"\x1b]11;?\x1b\\": "\x1b]11;rgb:fdfd/f6f6/e3e3\x1b\\"}
    for name, env in {
        "dark": {"NO_COLOR": ""},
        "light": {"NO_COLOR": "", "COLORFGBG": "0;15"},
        "told": {"NO_COLOR": "", "COLORFGBG": "15;0"},
        "none": {},
    }.items():
        answers = PLAIN | told if name == "told" else PLAIN
        with (
            serving(plan) as server,
            OnScreen(tmp_path, server.url, env=env, answers=answers) as screen,
        ):
            screen.expect(READY)
            screen.type("look\r")
            screen.expect("Done.")
            seen[name] = screen.raw
    assert b"38;5;117" in seen["dark"]
    assert b"38;5;25m" in seen["light"]
    assert b"38;5;25m" in seen["told"]
    assert b"38;5;117" not in seen["told"]
    assert b"38;5" not in seen["none"]


@pytest.mark.parametrize(
    ("env", "bands", "has_words"),
    [
        ({"NO_COLOR": "", "COLORTERM": "truecolor"}, ("3e1e22", "1a3222"), True),
        ({"NO_COLOR": "", "COLORTERM": ""}, ("262626", "262626"), True),
        ({"NO_COLOR": "1", "COLORTERM": "truecolor"}, ("default", "default"), False),
    ],
)
def test_a_diff_is_drawn_on_bands_with_the_changed_words_marked(
    tmp_path: Path, env: dict[str, str], bands: tuple[str, str], has_words: bool
) -> None:
    (tmp_path / "work").mkdir()
    (tmp_path / "work" / "sum.py").write_text("total = price * count\n", "utf-8")
    edit = uses(
        "Edit",
        file_path="sum.py",
        old_string="total = price * count",
        new_string="total = price * amount",
    )
    read = {"content": [{"tool": "Read", "input": {"file_path": "sum.py"}}]}
    plan = scenario(read, says(edit) | {"when": {"tool_result": "Read"}})
    options = ("--permission-mode", "acceptEdits")
    with serving(plan) as server, OnScreen(tmp_path, server.url, *options, env=env) as screen:
        screen.expect("accept edits")
        screen.type("rename it\r")
        screen.expect("The end.")
        screen.settle()
        rows = {text: y for y, text in enumerate(screen.glass.display)}
        old = next(y for text, y in rows.items() if "- total = price * count" in text)
        new = next(y for text, y in rows.items() if "+ total = price * amount" in text)
        cells = [screen.glass.buffer[y] for y in (old, new)]
    assert tuple(line[screen.glass.columns - 1].bg for line in cells) == bands
    for line, word in zip(cells, ("count", "amount"), strict=True):
        text = "".join(line[x].data for x in range(screen.glass.columns))
        at, before = text.index(word), text.index("price")
        assert (line[at].bg != line[before].bg) is has_words
        assert line[at].underscore is not has_words
        assert not line[before].underscore


def test_a_theme_counts_as_soon_as_it_is_set(tmp_path: Path) -> None:
    plan = {"scenario": 1, "answers": [{"text": "# Title", "times": "always"}]}
    with serving(plan) as server, OnScreen(tmp_path, server.url, env={"NO_COLOR": ""}) as screen:
        screen.expect(READY)
        assert b"38;5;109m> " in screen.raw
        assert b"38;5;23m> " not in screen.raw
        screen.type("/config theme light\r")
        screen.expect("theme set")
        screen.expect(lambda _: b"38;5;23m> " in screen.raw)
        screen.type("hi\r")
        screen.expect(lambda _: b"38;5;25mTitle" in screen.raw)
        screen.type("/config theme lihgt\r")
        screen.expect('did you mean "light"')


def test_a_theme_is_chosen_by_its_preview(tmp_path: Path) -> None:
    env = {"NO_COLOR": "", "COLORTERM": "truecolor"}
    with (
        serving({"scenario": 1, "answers": []}) as server,
        OnScreen(tmp_path, server.url, env=env, answers=PLAIN) as screen,
    ):

        def ground(words: str) -> str:
            rows = [y for y, text in enumerate(screen.glass.display) if words in text]
            return screen.glass.buffer[rows[0]][screen.glass.columns - 1].bg if rows else ""

        screen.expect(READY)
        screen.type("/theme\r")
        screen.expect("Choose a theme")
        screen.settle()
        assert ground("+     return sum(coins)") == "1a3222"
        screen.type("\x1b[B" * 4)
        screen.expect(lambda _: ground("+     return sum(coins)") == "ddeeff")
        screen.type("\x1b[B" * 2)
        screen.expect(lambda _: ground("+     return sum(coins)") == "default")
        screen.type("\x1b[A" * 2 + "\r")
        screen.expect("theme set")
        screen.expect(lambda _: b"38;5;23m> " in screen.raw)
        (place,) = tmp_path.rglob("settings.json")
        assert json.loads(place.read_text("utf-8"))["theme"] == "light-daltonized"
        screen.type("/theme dark\r")
        screen.expect(lambda _: json.loads(place.read_text("utf-8"))["theme"] == "dark")
        screen.type("/theme drak\r")
        screen.expect('did you mean "dark"')
        screen.type("/theme\r")
        screen.expect("> 2. Dark")
        screen.type("\x1b\x1b")
        screen.expect(lambda text: "Choose a theme" not in text)
        assert json.loads(place.read_text("utf-8"))["theme"] == "dark"


def test_a_session_that_a_host_gave_a_color_has_its_prompt_in_it(tmp_path: Path) -> None:
    plan = {"scenario": 1, "answers": [{"text": "Yes.", "times": "always"}]}
    seen = {}
    with serving(plan) as server:
        for color in ("orange", "default", "mauve"):
            home = tmp_path / color
            home.mkdir()
            with Hosted(home, server.url) as host:
                host.say("hi")
                host.result()
                host.ask("set_color", color=color)
                assert host.end() == 0
            (path,) = transcripts(home)
            if color == "mauve":
                # Another program's word, of more colors than there are here.
                with path.open("a", encoding="utf-8") as log:
                    log.write('{"type":"agent-color","agentColor":"mauve"}\n')
            for env in ({"NO_COLOR": ""}, {"NO_COLOR": "1"}):
                with OnScreen(home, server.url, "--continue", env=env) as screen:
                    screen.expect("Yes.")
                    screen.expect(READY)
                    seen[color, env["NO_COLOR"]] = screen.raw
    assert b"38;5;208m> " in seen["orange", ""]
    assert b"38;5;109m> " in seen["default", ""]
    assert b"38;5;109m> " in seen["mauve", ""]
    assert all(b"38;5" not in raw for (_, plain), raw in seen.items() if plain)


def test_a_session_that_goes_on_shows_what_was_said(tmp_path: Path) -> None:
    plan = {"scenario": 1, "answers": [{"text": ANSWER, "times": "always"}]}
    with serving(plan) as server:
        with OnScreen(tmp_path, server.url) as screen:
            screen.expect(READY)
            screen.type("look\r")
            screen.expect("Done.")
            screen.type("\x04")
            assert screen.end() == 0
        with OnScreen(tmp_path, server.url, "--continue", rows=40) as screen:
            screen.expect(READY)
            screen.expect("> look")
            screen.expect("漢字.py │ 1,200")
