"""A session on one page: everything that was said is there, as text, and nothing else is needed."""

import json
import re
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clew.record.exchange.account import (
    Account,
    ConversationAccount,
    Piece,
    Redaction,
    pieces_of,
    shown_input,
)
from clew.record.exchange.pages import (
    block,
    changed,
    escaped,
    fenced,
    prose,
    render_html,
    render_markdown,
)
from clew.record.transcript.load import load
from tests.commands.sessions.place import Place
from tests.record.transcript.build import (
    SESSION,
    boundary,
    call,
    encoded,
    entry,
    kept,
    names,
    result,
    said,
    summary,
    talk,
    uid,
    user,
)
from tests.requirements import requirement


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path)


def block_of(kind: str, **more: Any) -> dict[str, Any]:
    return {"type": kind, **more}


PICTURE = block_of("image", source={"type": "base64", "media_type": "image/png", "data": "aGk="})
EVERYTHING = [
    user("u1", None, "Look <script>alert(1)</script> & at `this`"),
    entry("attachment", "c", "u1", attachment={"type": "git"}, rendered=[{"content": "on main"}, 5]),
    entry("attachment", "d", "c", attachment={"type": "prompt_snapshot"}, rendered=[]),
    said("k", "d", block_of("thinking", thinking="hmm, quietly", signature="s"), of="m"),
    said("h", "k", block_of("redacted_thinking", data="x"), of="m"),
    said("t", "h", call("ls -l"), of="m"),
    result("r", "t", "ls -l"),
    user("n", "r", [PICTURE, block_of("document", title="paper.pdf", source=5), 7]),
    user("i", "n", [block_of("tool_result", tool_use_id="toolu_gone", is_error=True,
                             content=[block_of("text", text="it broke"), PICTURE, "loose", 5, None])]),
    said("s", "i", block_of("server_tool_use", id="x", name="web", input=5)),
    said("w", "s", block_of("web_search_tool_result", content={"k": "v"})),
    user("e", "w", "meta words", isMeta=True),
    entry("system", "y", "e", subtype="informational", content="a notice", level="info"),
    entry("system", "z", "y", subtype="turn_duration"),
    said("a", "z", block_of("text", text="# Done\n\n- one\n- two\n  goes on\n\n**bold** `code`\n```py\nx < 1\n```")),
]  # fmt: skip


class Text(HTMLParser):
    """The words of a page, and the tags they stand in."""

    def __init__(self) -> None:
        super().__init__()
        self.words: list[str] = []
        self.tags: list[str] = []
        self.inside = ""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.inside = tag
        for name, value in attrs:
            assert not name.startswith("on")
            if name in ("src", "href"):
                assert value is not None
                assert value.startswith(("data:image/", "#"))

    def handle_endtag(self, tag: str) -> None:
        self.inside = ""

    def handle_data(self, data: str) -> None:
        if self.inside not in ("style", "script"):
            self.words.append(data)


def page(text: str) -> Text:
    found = Text()
    found.feed(text)
    found.close()
    return found


REMINDER = "<system-reminder>\nbe brief\n</system-reminder>"
NEWS = "<task-notification>\n<summary>done</summary>\n</task-notification>"
OUTPUT = "<bash-stdout>made</bash-stdout><bash-stderr></bash-stderr>"


def test_text_for_the_model_is_not_shown_as_the_user_s_words(place: Place) -> None:
    both = f"{REMINDER} between {REMINDER}"
    lines = [
        user("u1", None, [block_of("text", text=REMINDER), block_of("text", text="Typed words")]),
        user("n", "u1", NEWS),
        user("o", "n", OUTPUT),
        user("q", "o", REMINDER, promptSource="typed"),
        user("b", "q", both),
        user("e", "b", "meta words", isMeta=True),
        user("s", "e", "told before", isCompactSummary=True),
    ]
    place.write(lines)
    text = place.clew("export", SESSION, "--format", "markdown")
    label = "<summary>For the model, not written by the user: {}</summary>"
    for name in ("Reminder", "Notification", "Context", "Summary"):
        assert text.count(label.format(name)) == 1, name
    assert text.count("<summary>Command output</summary>") == 1
    # A prompt that contains such a tag is the user's, and so are words next to one.
    heads = re.findall(r"^## Prompt.*\n\n(.*)", text, re.M)
    assert heads == ["Typed words", "<system-reminder>", "<system-reminder>"]
    html = place.clew("export", SESSION, "--format", "html")
    assert html.count("For the model, not written by the user: ") == 4
    assert html.count('<article class="person"') == 3


def test_everything_that_was_said_is_on_the_page_once_and_as_text(place: Place) -> None:
    place.write(EVERYTHING)
    place.clew("export", SESSION, "page.html")
    written = (place.cwd / "page.html").read_text("utf-8")
    found = page(written)
    words = "".join(found.words)
    for said_words in (
        "Look <script>alert(1)</script> & at", "on main", "hmm, quietly", "redacted by the model provider",
        "ls -l", "ls -l done", "paper.pdf", "it broke", "loose", "web", '{"k":"v"}', "meta words",
        "a notice", "turn_duration", "Done", "goes on", "bold", "x < 1",
    ):  # fmt: skip
        assert said_words in words, said_words
    assert found.tags.count("script") == 1
    assert found.tags.count("img") == 2
    assert not re.search(r"https?://", re.sub(r"<script>.*?</script>", "", written, flags=re.S))
    assert "default-src 'none'" in written
    assert (place.cwd / "page.html").stat().st_mode & 0o777 == 0o600


def test_news_of_tasks_and_commands_are_shown_as_on_the_screen(place: Place) -> None:
    """B7: a notification is no prompt, and no tags of the transcript are on the page."""
    news = (
        "<task-notification>\n<task-id>s1</task-id>\n<status>completed</status>\n"
        "<summary>Background shell “make” completed</summary>\n</task-notification>"
    )
    command = "<command-message>x</command-message>\n<command-name>/x</command-name>"
    place.write(
        [
            user("u1", None, f"{command}\n<command-args>now</command-args>"),
            said("a1", "u1", block_of("text", text="1. one\n   - ~~two~~")),
            user("u2", "a1", news, origin={"kind": "task-notification"}),
        ]
    )
    for target in ("page.html", "page.md"):
        place.clew("export", SESSION, target)
        written = (place.cwd / target).read_text("utf-8")
        assert "task-notification" not in written
        assert "command-name" not in written
        assert "/x now" in written
        assert "Background shell “make” completed" in written
        if target == "page.html":
            assert written.count('<li><a href="#p') == 1
            assert "Background task: Background shell" in written
            assert "<ul><li><p><s>two</s></p></li></ul>" in written


def test_news_is_a_note_by_name() -> None:
    news = user("u1", None, "<summary>It ended</summary>", origin={"kind": "task-notification"})
    (piece,) = pieces_of([news])
    assert (piece.voice, piece.name, piece.text) == ("note", "Background task", "It ended")
    note = ConversationAccount(title="", pieces=(piece,))
    empty = Account(
        session_id="", title="", cwd="", branch="", created_at="", models=(), talks=(note,)
    )
    assert "Background task: It ended" in render_html(empty)


def test_the_same_is_in_markdown(place: Place) -> None:
    place.write(EVERYTHING)
    shown = place.clew("export", SESSION)
    for said_words in (
        "## Prompt",
        "on main",
        "hmm",
        "**Bash**",
        "ls -l done",
        "Error:",
        "it broke",
    ):
        assert said_words in shown
    assert place.clew("export", SESSION, "--format", "markdown") == shown


def test_subagents_are_on_the_page_and_can_be_left_out(place: Place) -> None:
    path = place.write(talk(1))
    agents = path.with_suffix("") / "subagents"
    agents.mkdir(parents=True)
    side = [
        user("s1", None, "dig", isSidechain=True, agentId="a7"),
        said("s2", "s1", isSidechain=True),
    ]
    (agents / "agent-a7.jsonl").write_bytes(encoded(side))
    (agents / "agent-a7.meta.json").write_text(
        '{"agentType":"digger","description":"Dig deep","toolUseId":"toolu_1"}', "utf-8"
    )
    (agents / "agent-b8.jsonl").write_bytes(encoded([user("x", None, "bare", isSidechain=True)]))
    for form in ("markdown", "html"):
        shown = place.clew("export", SESSION, "--format", form)
        assert "Dig deep" in shown
        assert "bare" in shown
        assert "Dig deep" not in place.clew("export", SESSION, "--format", form, "--no-agents")
    whole = json.loads(place.clew("export", SESSION, "--format", "json"))
    assert [(a["agentId"], a["agentType"], len(a["messages"])) for a in whole["agents"]] == [
        ("a7", "digger", 2), ("b8", None, 1),
    ]  # fmt: skip
    lines = place.clew("export", SESSION, "--format", "jsonl").splitlines()
    ids = [json.loads(line).get("agentId") for line in lines]
    assert ids == [None, None, "a7", "a7", "a7", "b8"]
    assert json.loads(lines[2])["description"] == "Dig deep"


@requirement("R154")
def test_json_lines_are_the_bytes_that_were_written(place: Place) -> None:
    path = place.write([*talk(2), {"type": "tag", "tag": "x"}, b"{broken\n"])
    shown = place.clew("export", SESSION, "--format", "jsonl")
    assert shown.encode() == path.read_bytes().removesuffix(b"{broken\n")
    whole = json.loads(place.clew("export", SESSION, "--format", "json"))
    assert whole["version"] == "2.0"
    assert whole["messages"] == load(path).messages
    assert whole["metadata"]["messageCount"] == 4
    assert whole["metadata"]["projectPath"] == str(place.cwd)
    names = {"gitBranch", "projectPath", "created", "modified", "messageCount"}
    assert set(whole["metadata"]) == names


SECRET = "sk-ant-api03-abcdefghijklmnopqrstuvwx"


def test_what_is_redacted_is_in_no_form(place: Place) -> None:
    home = str(Path.home())
    place.write(
        [
            user(
                "u", None, f"key {SECRET} of ada@example.org in {home}/notes", cwd=f"{home}/secret"
            ),
            said("t", "u", call(f"curl -H 'Authorization: Bearer {SECRET}'")),
            result("r", "t", "x"),
            user("p", "r", [block_of("image", source={"type": "base64", "data": "A" * 300})]),
        ]
    )
    for form in ("html", "markdown", "json", "jsonl"):
        shown = place.clew("export", SESSION, "--format", form, "--redact")
        for hidden in (SECRET, "ada@example.org", f"{home}/notes", "A" * 300):
            assert hidden not in shown, (form, hidden)
        assert "~/notes" in shown
        plain = place.clew("export", SESSION, "--format", form)
        assert SECRET not in plain, form
        assert "ada@example.org" in plain
        assert SECRET in place.clew("export", SESSION, "--format", form, "--raw"), form


def test_only_lines_that_hold_a_secret_are_changed_and_raw_lines_are_as_written(
    place: Place,
) -> None:
    thought = block_of("thinking", thinking="hm", signature="c2ln" * 90)
    told = block_of("tool_use", id="toolu_9", name="Bash", input={"password": "correct-horse"})
    path = place.write(
        [*talk(2), said("w", None, thought, told), user("u", "w", f"my key is {SECRET}")]
    )
    written = path.read_bytes().splitlines()
    lines = place.clew("export", SESSION, "--format", "jsonl").encode().splitlines()
    assert [a == b for a, b in zip(written, lines, strict=True)] == [True] * 4 + [False] * 2
    assert "c2ln" * 90 in lines[4].decode()
    assert "correct-horse" not in lines[4].decode()
    assert json.loads(lines[5])["message"]["content"] == "my key is sk-ant-[masked]"
    raw = place.clew("export", SESSION, "--format", "jsonl", "--raw").encode()
    assert raw == path.read_bytes()
    whole = json.loads(place.clew("export", SESSION, "--format", "json", "--raw"))
    assert whole["messages"] == load(path).messages
    wrong = place.clew("export", SESSION, "--raw", "--redact", code=2)
    assert "can't be combined" in wrong


def test_an_account_tells_everything_in_its_order() -> None:
    found = list(pieces_of(EVERYTHING))
    assert [p.voice for p in found] == [
        "person", "context", "thinking", "thinking", "call", "result", "image", "image", "note",
        "result", "image", "call", "note", "context", "note", "note", "model",
    ]  # fmt: skip
    for form in (render_html, render_markdown):
        assert "it broke" in form(account(*found))


def test_a_name_is_redacted_as_a_word() -> None:
    mine = Redaction(names=("ada",))
    assert mine.text("ada's Canada") == "[name]'s Canada"
    big = {"x": ["ada", 5, None], "data": "A" * 300, "signature": "short"}
    assert mine.value(big) == {"x": ["[name]", 5, None], "data": "[removed]", "signature": "short"}
    assert Redaction(folders=(("/home/ada", "~"),)).text("in /home/ada/x") == "in ~/x"


def test_a_file_that_is_there_is_not_written_over(place: Place) -> None:
    place.write(talk(1))
    (place.cwd / "x.md").write_text("mine", "utf-8")
    assert "already exists" in place.clew("export", SESSION, "x.md", code=2)
    told = place.json("export", SESSION, "x.md", "--force")
    assert told["format"] == "markdown"
    assert "## Prompt" in (place.cwd / "x.md").read_text("utf-8")
    assert "requires an output file" in place.clew("export", SESSION, "--json", code=2)


def pieces() -> Iterator[Piece]:
    voices = ("person", "model", "thinking", "call", "result", "note", "context", "image")
    for voice in voices:
        yield Piece(voice=voice, text="", name="", timestamp="")
        yield Piece(
            voice=voice, text="words", name="n", timestamp="2026-01-02T03:04:05Z", is_error=True
        )


def account(*found: Piece, agent: str = "") -> Account:
    talk_ = ConversationAccount(title="t", pieces=found)
    side = ConversationAccount(title="s", pieces=found, agent="a1")
    return Account(
        session_id="id",
        title="<t>",
        cwd="",
        branch="",
        created_at="",
        models=(),
        talks=(talk_, side),
    )


def test_every_voice_has_a_place() -> None:
    for form in (render_html, render_markdown):
        assert "words" in form(account(*pieces()))


@given(st.text())
def test_no_words_become_markup_in_prose(text: str) -> None:
    plain = {
        *("p", "br", "ul", "ol", "li", "h3", "h4", "h5", "h6", "pre", "code", "strong", "em", "s"),
        *("table", "tr", "th", "td", "blockquote", "hr", "a", "span"),
    }
    assert set(page(prose(text)).tags) <= plain


@given(
    st.text(st.characters(exclude_categories=["C", "Z"], exclude_characters="`*_~[]<>&!|:-+=#.)\\"))
)
def test_all_words_of_plain_prose_are_on_the_page(text: str) -> None:
    assert "".join(page(prose(text)).words).strip() == text


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("a\nb\n\nc", "<p>a\nb</p><p>c</p>"),
        ("a  \nb<br>c <i>", "<p>a<br>b<br>c &lt;i&gt;</p>"),
        (
            "text\n- one\n2. two\n3. three",
            "<p>text</p><ul><li><p>one</p></li></ul>"
            '<ol><li value="2"><p>two</p></li><li value="3"><p>three</p></li></ol>',
        ),
        (
            "1. one\n   - in\n   - [x] done\n2. two",
            '<ol><li value="1"><p>one</p><ul><li><p>in</p></li><li><p>☑ done</p></li></ul></li>'
            '<li value="2"><p>two</p></li></ol>',
        ),
        (
            "- a\n\n  b\n-\n* c",
            "<ul><li><p>a</p><p>b</p></li><li></li></ul><ul><li><p>c</p></li></ul>",
        ),
        (
            "> a ~~b~~\n> > c\n\nd",
            "<blockquote><p>a <s>b</s></p><blockquote><p>c</p></blockquote></blockquote><p>d</p>",
        ),
        ("~~~\nopen", "<pre>open\n</pre>"),
        ("````\n```\n````", "<pre>```\n</pre>"),
        (
            "```python\nx = 1 # <\n```",
            '<pre>x <span class="c-operator">=</span> <span class="c-number">1</span> '
            '<span class="c-comment"># &lt;</span>\n</pre>',
        ),
        ("```\n" + "x" * 2500, "<pre>" + "x" * 2500 + "\n</pre>"),
        ("- one\n\n# Head", "<ul><li><p>one</p></li></ul><h3>Head</h3>"),
        ("###### Head **x**\n***", "<h6>Head <strong>x</strong></h6><hr>"),
        ("an *odd* 2 * 3 * 4 `<a>`", "<p>an <em>odd</em> 2 * 3 * 4 <code>&lt;a&gt;</code></p>"),
        ("<div>\n<b>x</b>", '<p class="soft">&lt;div&gt;<br>&lt;b&gt;x&lt;/b&gt;<br></p>'),
        (
            "| a | b |\n|---|--:|\n| `1` | <2> |\n| 3 |\n\nend",
            '<table><tr><th>a</th><th class="right">b</th></tr><tr><td><code>1</code></td>'
            '<td class="right">&lt;2&gt;</td></tr><tr><td>3</td><td class="right"></td></tr>'
            "</table><p>end</p>",
        ),
        ("[a](https://b.c)", '<p><a href="https://b.c">a</a></p>'),
        ("[x.y](https://b.c)", '<p><a href="https://b.c">x.y</a> (https://b.c)</p>'),
        ("[a](javascript:x)", "<p>[a](javascript:x)</p>"),
        ("[a](file.py)", "<p>a (file.py)</p>"),
        ("[a]()", "<p>a ()</p>"),
        ("see https://b.c/'.", '<p>see <a href="https://b.c/">https://b.c/</a>&#39;.</p>'),
        ("see https://b.\u00e9", "<p>see https://b.é</p>"),
        ("![a](b.png) ![](c)", "<p>[image: a] (b.png) [image] (c)</p>"),
    ],
)
def test_prose_is_read(text: str, shown: str) -> None:
    assert prose(text) == shown


def test_long_output_is_folded_and_a_fence_ends_where_it_says() -> None:
    assert block("a\n" * 30).startswith('<pre class="long">')
    assert block("") == ""
    assert escaped("<&>\"'") == "&lt;&amp;&gt;&quot;&#39;"
    assert list(fenced("a ```` b")) == ["`````", "a ```` b", "`````"]


def test_a_calls_input_is_told_by_what_matters_first() -> None:
    assert shown_input({"old": "a\nb", "file_path": "x"}) == "file_path: x\nold:\na\nb"
    assert shown_input({"command": "ls"}) == "ls"
    assert shown_input({"n": 5}) == "n: 5"
    edit = {"file_path": "x", "old_string": "a\nb", "new_string": "<c>", "replace_all": True}
    told = shown_input(edit)
    assert told == "file_path: x\nreplace_all: true\n-a\n-b\n+<c>"
    shown = changed(block(told))
    assert shown.endswith("true\n<del>-a</del>\n<del>-b</del>\n<ins>+&lt;c&gt;</ins></pre>")
    assert shown_input([1]) == "[1]"


def test_what_a_program_wrote_in_the_users_name_is_a_notice() -> None:
    said = {"type": "user", "uuid": "1", "isSynthetic": True, "message": {"content": "Stopped."}}
    (piece,) = pieces_of([said])
    assert (piece.voice, piece.name) == ("note", "Notice")


def test_entries_of_any_shape_make_an_account() -> None:
    odd: list[dict[str, Any]] = [
        {"type": "attachment", "uuid": "1", "attachment": 5, "rendered": 5},
        {"type": "user", "uuid": "2", "message": 5},
        {"type": "user", "uuid": "3", "message": {"content": [{"type": 5}]}},
        {"type": "progress", "uuid": "4"},
        {"type": "assistant", "uuid": "5", "message": {"content": [block_of("image", source=5)]}},
    ]
    assert [p.voice for p in pieces_of(odd)] == ["context", "note", "image"]


@pytest.mark.parametrize("form", ["json", "markdown", "html"])
def test_all_of_a_compacted_session_is_exported_each_entry_once_where_it_was_said(
    place: Place, form: str
) -> None:
    place.write(
        [
            user("u1", None, "the very first"),
            said("a1", "u1"),
            boundary("b") | {"logicalParentUuid": uid("a1")},
            summary("s", "b") | {"message": {"role": "user", "content": "first summary"}},
            user("u2", "s"),
            said("t2", "u2", call("x"), of="m"),
            said("c2", "t2", call("y"), of="m"),
            result("r2", "t2", "x"),
            result("q2", "c2", "y"),
            said("a2", "q2"),
            user("u3", "a2"),
            said("a3", "u3"),
            boundary("d", **kept("u3", "a3", "e")) | {"logicalParentUuid": uid("a3")},
            summary("e", "d") | {"message": {"role": "user", "content": "second summary"}},
            user("u4", "a3"),
            said("a4", "u4", {"type": "text", "text": "the last"}),
        ]
    )
    exported = place.clew("export", SESSION, "--format", form)
    everything = place.clew("export", SESSION, "--all", "--format", form)
    told = b"clew sessions: history before the last summary is omitted; add --all to include it\n"
    for words, said_so in (((), told), (("--all",), b""), (("kept.txt",), told)):
        assert place.run("export", SESSION, *words, "--format", form).stderr == said_so
    assert place.run("export", SESSION, "--format", "jsonl").stderr == b""
    if form == "json":
        assert names(json.loads(exported)["messages"]) == "d e u3 a3 u4 a4"
        found = json.loads(everything)
        assert names(found["messages"]) == "u1 a1 b s u2 t2 c2 r2 q2 a2 u3 a3 d e u4 a4"
        assert found["metadata"]["messageCount"] == 16
    else:
        words = [
            "the very first",
            "first summary",
            "x done",
            "y done",
            "second summary",
            "the last",
        ]
        places = [everything.rindex(word) for word in words]
        assert "x done" not in exported
        assert everything.count("x done") == 1
        assert places == sorted(places)


def test_a_file_may_follow_an_option(place: Place) -> None:
    """Options and arguments may come in any order."""
    place.write(talk(1))
    place.clew("export", SESSION, "--format", "html", "out.html")
    assert (place.cwd / "out.html").read_text("utf-8").lower().startswith("<!doctype html>")


@pytest.mark.parametrize(
    ("entry", "voice", "name"),
    [
        (user("u", None, "hello"), "person", ""),
        (user("u", None, "context", isMeta=True), "context", "Context"),
        (user("u", None, "so far", isCompactSummary=True), "context", "Summary"),
        (user("u", None, "<system-reminder>be brief</system-reminder>"), "context", "Reminder"),
        (user("u", None, "<bash-stdout>out</bash-stdout>"), "note", "Command output"),
        (
            user("u", None, "<bash-stdout>typed</bash-stdout>", promptSource="typed"),
            "person",
            "",
        ),
        (user("u", None, "see <bash-stdout>out</bash-stdout>"), "person", ""),
    ],
)
def test_pieces_name_who_wrote_a_text(entry: dict[str, Any], voice: str, name: str) -> None:
    (piece,) = pieces_of([entry])
    assert (piece.voice, piece.name) == (voice, name)
