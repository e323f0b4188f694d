"""Content from and to an editor, and how it shows calls."""

import base64

from clew.core.ledger.state import TodoItem
from clew.fronts.editor import protocol
from clew.fronts.editor.protocol import (
    MAX_IMAGE_CHARS,
    ClientAbilities,
    answers_of,
    auth_methods,
    form_of,
    make_initialize_answer,
    prompt_of,
    render_blocks,
)

PNG = base64.b64encode(b"\x89PNG\r\n\x1a\n....").decode()


def test_text_links_and_embedded_files_become_one_prompt() -> None:
    prompt = prompt_of(
        [
            {"type": "text", "text": "compare "},
            {"type": "resource_link", "uri": "file:///w/a%20b.py#L3", "name": "a b.py"},
            {"type": "text", "text": " with "},
            {"type": "resource", "resource": {"uri": "file:///w/c.py", "text": "x = 1"}},
            {"type": "resource_link", "uri": "https://example.org/x", "name": "x"},
            {"type": "image", "data": PNG, "mimeType": "image/png"},
        ]
    )
    assert prompt.text == (
        'compare @"/w/a b.py#L3" with [c.py](file:///w/c.py)[x](https://example.org/x)'
    )
    assert prompt.embedded == '<context ref="file:///w/c.py">\nx = 1\n</context>'
    assert [image.media_type for image in prompt.images] == ["image/png"]
    assert prompt.left_out == ()


def test_an_embedded_picture_is_a_picture_and_the_rest_is_said_to_be_left_out() -> None:
    prompt = prompt_of(
        [
            {"type": "resource", "resource": {"uri": "p", "mimeType": "image/png", "blob": PNG}},
            {"type": "resource", "resource": {"uri": "z", "blob": "AAAA"}},
            {"type": "image", "data": "no base64!", "mimeType": "image/png"},
            {"type": "image", "data": "AAAA"},
            {"type": "audio", "data": "AAAA", "mimeType": "audio/wav"},
            "no block",
        ]
    )
    assert len(prompt.images) == 1
    assert prompt.text == ""
    assert len(prompt.left_out) == 5
    assert "audio" in prompt.left_out
    assert prompt_of("no list").text == ""


def test_a_name_that_no_mention_can_hold_stays_a_link() -> None:
    uri = "file:///a%22b"
    prompt = prompt_of([{"type": "resource_link", "uri": uri, "name": ""}])
    assert prompt.text == f"[{uri}]({uri})"


def test_results_are_shown_as_far_as_an_editor_can() -> None:
    def image(data: str) -> dict[str, object]:
        source = {"type": "base64", "media_type": "image/png", "data": data}
        return {"type": "image", "source": source}

    assert render_blocks("words") == [{"type": "text", "text": "words"}]
    assert render_blocks("") == []
    assert render_blocks([image("AAAA"), image("A" * MAX_IMAGE_CHARS), {"type": "odd"}, 3]) == [
        {"type": "image", "data": "AAAA", "mimeType": "image/png"},
        {"type": "text", "text": "[image]"},
    ]
    assert render_blocks([{"type": "text", "text": ""}, {"type": "document"}]) == [
        {"type": "text", "text": "[document]"}
    ]


# -- calls


def nothing(_: str) -> str | None:
    return None


def test_a_call_says_its_kind_its_file_and_the_line() -> None:
    block = {"name": "Read", "input": {"file_path": "a.py", "offset": 7}}
    told = protocol.describe_call(block, "Read: a.py", "/w", nothing)
    assert told["kind"] == "read"
    assert told["locations"] == [{"path": "/w/a.py", "line": 7}]
    assert "content" not in told
    assert protocol.describe_call({"name": "Odd"}, "", "/w", nothing)["title"] == "Odd"


def test_edits_are_shown_before_they_are_made() -> None:
    def before(path: str) -> str | None:
        return "old" if path == "/w/a" else None

    write = {"name": "Write", "input": {"file_path": "/w/a", "content": "new"}}
    assert protocol.describe_call(write, "", "/w", before)["content"] == [
        protocol.diff("/w/a", "old", "new")
    ]
    edit = {"name": "Edit", "input": {"file_path": "a", "old_string": "o", "new_string": "n"}}
    assert protocol.describe_call(edit, "", "/w", before)["content"] == [
        protocol.diff("/w/a", "o", "n")
    ]
    steps = [{"old_string": "o", "new_string": "n"}, {"old_string": "p", "new_string": "q"}]
    many = {"name": "MultiEdit", "input": {"file_path": "a", "edits": steps}}
    assert len(protocol.describe_call(many, "", "/w", before)["content"]) == 2


def test_a_change_that_was_made_is_a_whole_file_where_it_is_known() -> None:
    written = {"filePath": "/a", "content": "new", "originalFile": None}
    assert protocol.describe_result("", written) == [protocol.diff("/a", None, "new")]
    over = {"filePath": "/a", "content": "new", "originalFile": "old"}
    assert protocol.describe_result("", over) == [protocol.diff("/a", "old", "new")]
    edited = {"filePath": "/a", "oldString": "o", "newString": "n", "originalFile": "oo"}
    assert protocol.describe_result("", edited) == [protocol.diff("/a", "oo", "no")]
    assert protocol.describe_result("", edited | {"replaceAll": True}) == [
        protocol.diff("/a", "oo", "nn")
    ]
    assert protocol.describe_result("", edited | {"originalFile": None}) == [
        protocol.diff("/a", "o", "n")
    ]
    steps = [{"old_string": "a", "new_string": "b"}, {"old_string": "", "new_string": "c"}]
    several = {"filePath": "/a", "edits": steps, "originalFileContents": "a"}
    assert protocol.describe_result("", several) == [protocol.diff("/a", "a", "b")]
    assert protocol.describe_result("said", {"stdout": "said"}) == [
        {"type": "content", "content": {"type": "text", "text": "said"}}
    ]


def test_a_list_of_what_is_to_do_is_a_plan() -> None:
    told = protocol.plan([TodoItem(content="look", status="in_progress")])
    assert told["entries"] == [{"content": "look", "priority": "medium", "status": "in_progress"}]


# -- forms


def test_questions_become_a_form_and_its_fields_become_answers() -> None:
    questions = [
        {"question": "Which?", "options": [{"label": "a", "description": "one"}, {"label": "b"}]},
        {"question": "All?", "multiSelect": True, "options": [{"label": "c"}, {"label": "d"}]},
        {"question": "Else?", "options": [{"label": "e"}]},
    ]
    fields = form_of(questions)["properties"]
    assert fields["q1"]["oneOf"] == [
        {"const": "a", "title": "a: one"},
        {"const": "b", "title": "b"},
    ]
    assert fields["q2"]["items"]["anyOf"][1] == {"const": "d", "title": "d"}
    filled = {"q1": "b", "q2": ["c", "d", 3], "q2_own": " and e ", "q3": 4}
    assert answers_of(questions, filled) == {"Which?": "b", "All?": "c, d, and e"}
    assert answers_of(questions, None) == {}


# -- what is offered


def test_a_login_in_a_terminal_is_offered_to_who_has_one() -> None:
    without = make_initialize_answer(ClientAbilities())
    assert [m["id"] for m in without["authMethods"]] == ["api-key"]
    able = ClientAbilities(
        {"auth": {"terminal": True}, "fs": {"readTextFile": True}, "terminal": True}
    )
    assert (able.reads, able.writes, able.runs, able.asks) == (True, False, True, False)
    assert auth_methods(able)[1]["args"] == ["login"]
