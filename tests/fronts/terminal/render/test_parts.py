"""Themes, terminal features, colors of code, images and collapsed output, each on its own."""

import re
from base64 import b64encode
from typing import Any, ClassVar

import pytest
from pygments.lexers import get_all_lexers, get_lexer_by_name
from pygments.lexers.python import PythonLexer

from clew.agent.tools.patch import NO_LAST_NEWLINE
from clew.core.markdown.highlighting import (
    find_lexer,
    find_lexer_for_file,
    lexed,
    read_language,
)
from clew.core.markdown.late_lexers import late
from clew.fronts.render import results
from clew.fronts.render.code import Colors
from clew.fronts.render.folding import KEPT, Folds, lines_of
from clew.fronts.render.markdown import get_ready
from clew.fronts.render.rows import (
    Span,
    address,
    chop_spans,
    clip_spans,
    count_cells,
    escape_controls,
    format_row,
    hang_lines,
    join_lines,
    wrap_spans,
)
from clew.fronts.render.theme import (
    ACCENTS,
    ANSI,
    BARE,
    DARK,
    LIGHT,
    PLAIN,
    THEMES,
    TRUE_THEMES,
    Abilities,
    Theme,
    accent_theme,
    choose_theme,
    detect_abilities,
)
from clew.record.transcript.side_lines import COLORS, NO_COLOR

DEEP = {"TERM": "xterm-256color"}


@pytest.mark.parametrize(
    ("wish", "environment", "theme"),
    [
        ("", DEEP, DARK),
        ("", DEEP | {"COLORFGBG": "0;15"}, LIGHT),
        ("", DEEP | {"COLORFGBG": "15;0"}, DARK),
        ("light", DEEP, LIGHT),
        ("light", {"TERM": "xterm"}, ANSI),
        ("light-ansi", {"TERM": "xterm"}, ANSI),
        ("dark", {"TERM": "xterm", "COLORTERM": "truecolor"}, TRUE_THEMES["dark"]),
        ("dark", {"TERM": "xterm", "COLORTERM": "yes"}, DARK),
        ("", {"TERM": "xterm", "COLORTERM": "24bit", "COLORFGBG": "0;15"}, TRUE_THEMES["light"]),
        ("plain", DEEP, PLAIN),
        ("plain", {"TERM": "xterm"}, PLAIN),
        ("nonsense", DEEP, DARK),
        ("dark-daltonized", DEEP, THEMES["dark-daltonized"]),
        ("dark", DEEP | {"NO_COLOR": "1"}, PLAIN),
        ("dark", {"TERM": "dumb"}, PLAIN),
    ],
)
def test_a_theme_is_chosen_by_wish_and_terminal(
    wish: str, environment: dict[str, str], theme: object
) -> None:
    assert choose_theme(wish, environment) is theme


def test_a_terminal_that_tells_its_ground_is_believed_before_a_variable() -> None:
    assert choose_theme("", DEEP | {"COLORFGBG": "15;0"}, is_light=True) is LIGHT
    assert choose_theme("", DEEP | {"COLORFGBG": "0;15"}, is_light=False) is DARK


def test_every_color_that_a_host_may_name_is_one_on_the_screen() -> None:
    assert tuple(ACCENTS) == COLORS
    for name in COLORS:
        assert accent_theme(DARK, name)["marker"] == ACCENTS[name][0]
        assert accent_theme(ANSI, name)["marker"] == ACCENTS[name][1]
        assert accent_theme(PLAIN, name) is PLAIN
        assert accent_theme(BARE, name) is BARE
    assert accent_theme(DARK, NO_COLOR) is DARK


def luminance(red: int, green: int, blue: int) -> float:
    """Return the relative luminance of a color, as WCAG 2 defines it."""

    def linear(value: int) -> float:
        part = value / 255
        return part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4

    return 0.2126 * linear(red) + 0.7152 * linear(green) + 0.0722 * linear(blue)


def color_of(style: str, layer: str) -> tuple[int, int, int] | None:
    """Return the color that a style sets as `38` (text) or `48` (background)."""
    if match := re.search(rf"{layer};2;(\d+);(\d+);(\d+)", style):
        return int(match[1]), int(match[2]), int(match[3])
    match = re.search(rf"{layer};5;(\d+)", style)
    if match is None:
        return None
    number = int(match[1])
    if number >= 232:
        grey = 8 + 10 * (number - 232)
        return grey, grey, grey
    steps = (0, 95, 135, 175, 215, 255)
    number -= 16
    return steps[number // 36], steps[number // 6 % 6], steps[number % 6]


def contrast(first: tuple[int, int, int], second: tuple[int, int, int]) -> float:
    low, high = sorted((luminance(*first), luminance(*second)))
    return (high + 0.05) / (low + 0.05)


QUIET = {"quiet", "quote", "thinking", "code_comment"}
COLORED = [
    theme
    for themes in (THEMES, TRUE_THEMES)
    for name, theme in themes.items()
    if "ansi" not in name and name != "plain"
]


@pytest.mark.parametrize("theme", COLORED)
def test_text_can_be_read_on_the_terminal_and_on_every_band(theme: Theme) -> None:
    is_light = theme.name.startswith("light")
    paper, ink = ((255, 255, 255), (36, 41, 47)) if is_light else ((0, 0, 0), (212, 215, 221))
    lines = {name: color_of(theme[f"{name}_line"], "48") for name in ("added", "removed", "person")}
    words = {name: color_of(theme[f"{name}_word"], "48") for name in ("added", "removed")}
    texts = {
        part: color
        for part, style in theme.styles.items()
        if part != "rule" and (color := color_of(style, "38"))
    }
    for part, color in texts.items():
        assert contrast(color, paper) >= (3 if part in QUIET else 4.5), part
        assert "2" not in theme[part].split(";")[:1], f"{part} is dimmed"
    for ground in lines.values():
        assert ground is not None
        assert contrast(ink, ground) >= 4.5
        assert 1.02 < contrast(ground, paper) < 3, "a band is seen, and is no bar"
    for name, ground in lines.items():
        for part in ("quiet", "code_comment", "code_keyword", "code_string", name):
            if part in texts and ground:
                assert contrast(texts[part], ground) >= 3, (name, part)
    for name, ground in words.items():
        line = lines[name]
        assert ground is not None
        assert line is not None
        assert contrast(ink, ground) >= 4.5
        assert contrast(ground, line) >= 1.15, "a changed word stands out from its line"


def shown_diff(theme: Theme, *lines: str, width: int = 40) -> list[str]:
    hunk = {"oldStart": 9, "newStart": 9, "lines": list(lines)}
    return [format_row(row) for row in results.rows_of([hunk], "", theme, width)]


def highlighted(line: str, theme: Theme, part: str) -> list[str]:
    """Return the texts of a line in the style of changed words."""
    return re.findall(rf"\x1b\[[\d;]*{theme[part]}m([^\x1b]*)", line)


def test_the_words_that_a_line_changed_are_marked_on_a_band_that_the_terminal_fills() -> None:
    old, new = shown_diff(DARK, "-total = price * count", "+total = price * amount + tax")
    assert highlighted(old, DARK, "removed_word") == ["count"]
    assert highlighted(new, DARK, "added_word") == ["amount + tax"]
    for line, part in ((old, "removed_line"), (new, "added_line")):
        assert line.startswith(f"\x1b[{DARK[part]}m\x1b[K\x1b[0m")
        assert all(
            DARK[part] in style for style in re.findall(r"\x1b\[([\d;]+)m", line) if style != "0"
        )


def test_changed_words_next_to_each_other_are_one_mark_and_others_are_not() -> None:
    old, _ = shown_diff(DARK, "-a, b c, d, keep = all(these)", "+a, x y, z, keep = all(these)")
    assert highlighted(old, DARK, "removed_word") == ["b c", "d"]


def test_words_are_marked_without_colors_too() -> None:
    old, new = shown_diff(PLAIN, "-a = 1", "+a = 2")
    assert highlighted(old, PLAIN, "removed_word") == ["1"]
    assert highlighted(new, PLAIN, "added_word") == ["2"]
    old, new = shown_diff(ANSI, "-a = 1", "+a = 2")
    assert "\x1b[7;31m1" in old
    assert "\x1b[7;32m2" in new
    assert not any("\x1b[K" in line for line in (old, new))
    bare = shown_diff(BARE, " x", "-a = 1", "+a = 2", NO_LAST_NEWLINE)
    assert bare == [" 9   x", "10 - a = 1", "10 + a = 2", f"   {NO_LAST_NEWLINE}"]


@pytest.mark.parametrize(
    "lines",
    [
        ["-one two three", "+quite something else"],
        ["-a = 1", "-b = 2", "+a = 2"],
        ["-a = " + "1" * 500, "+a = " + "2" * 500],
        ["-a = 1", " between", "+a = 2"],
        ["+a = 2", "-a = 1"],
        ["-a = 1"],
        [*("-a = 1" for _ in range(41)), *("+a = 2" for _ in range(41))],
    ],
)
def test_lines_that_replace_no_line_like_them_are_changed_as_a_whole(lines: list[str]) -> None:
    text = "".join(shown_diff(DARK, *lines))
    assert not highlighted(text, DARK, "removed_word") + highlighted(text, DARK, "added_word")


def test_a_changed_word_is_marked_where_it_is_shown_after_tabs_and_escapes() -> None:
    old, new = shown_diff(DARK, "-\tx\u202ey = one", "+\tx\u202ey = two", width=60)
    assert highlighted(old, DARK, "removed_word") == ["one"]
    assert highlighted(new, DARK, "added_word") == ["two"]
    rows = shown_diff(DARK, "-" + "a " * 8 + "old", "+" + "a " * 8 + "new", width=12)
    assert [highlighted(row, DARK, "removed_word") for row in rows[:3]] == [[], [], ["old"]]


def test_no_color_means_no_color_and_bare_means_no_sequence_at_all() -> None:
    assert not any(part in style for style in PLAIN.styles.values() for part in ("3;5", "38", "48"))
    assert all(style in ("1", "2", "3", "4", "9", "1;4") for style in PLAIN.styles.values())
    assert format_row([Span("x", BARE["heading"])]) == "x"


@pytest.mark.parametrize(
    ("environment", "able"),
    [
        ({}, Abilities()),
        ({"TERM": "dumb"}, Abilities()),
        ({"TERM": "xterm"}, Abilities()),
        ({"TERM": "xterm-kitty"}, Abilities(links=True, pictures="kitty")),
        ({"TERM": "xterm-ghostty"}, Abilities(links=True, pictures="kitty")),
        ({"TERM": "xterm", "TERM_PROGRAM": "iTerm.app"}, Abilities(links=True, pictures="iterm2")),
        ({"TERM": "xterm", "TERM_PROGRAM": "WezTerm", "TMUX": "x"}, Abilities(links=True)),
        ({"TERM": "xterm", "TERM_PROGRAM": "vscode"}, Abilities(links=True)),
        ({"TERM": "xterm", "VTE_VERSION": "6800"}, Abilities(links=True)),
        ({"TERM": "xterm", "VTE_VERSION": "odd"}, Abilities()),
    ],
)
def test_what_a_terminal_can_do_is_told_by_its_environment(
    environment: dict[str, str], able: Abilities
) -> None:
    assert detect_abilities(environment) == able


def test_what_could_rule_a_terminal_is_made_visible_and_what_writing_needs_stays() -> None:
    assert escape_controls("plain") == "plain"
    assert (
        escape_controls("\x1b[m\x00\x9b\u202e\U000e0041\ud800")
        == "\\x1b[m\\x00\\x9b\\u202e\\U000e0041\\ud800"
    )
    assert (
        escape_controls("👩\u200d👩 می\u200cخواهم　x\u00a0y\n\t")
        == "👩\u200d👩 می\u200cخواهم　x\u00a0y\n\t"
    )
    # What has no width and joins nothing: `rm\u200b x` is no `rm x`.
    assert escape_controls("r\u200bm\u2060\xad x\u200d \u200cy") == (
        "r\\u200bm\\u2060\\xad x\\u200d \\u200cy"
    )
    assert join_lines(" a\nb\t\x07c ") == "a b \\x07c"
    assert join_lines("a\r\x0bb\x1c\u2028c\x85") == "a\\x0d\\x0bb\\x1c\\u2028c\\x85"
    assert address("https://a.b/c?d") == "https://a.b/c?d"
    assert address("https://a.b/\x1b\\") == address("javascript:x") == address("file:///x y") == ""


def test_rows_are_as_wide_as_they_look() -> None:
    assert [count_cells(text) for text in ("ab", "漢字", "👨‍👩‍👧", "é", "❤️")] == [2, 4, 2, 1, 2]
    assert [format_row(row) for row in wrap_spans([Span("漢字漢字、x")], 6)] == ["漢字漢", "字、x"]
    assert [format_row(row) for row in wrap_spans([Span("a 👨‍👩‍👧👨‍👩‍👧 b")], 4)] == [
        "a",
        "👨‍👩‍👧👨‍👩‍👧",
        "b",
    ]
    assert [format_row(row) for row in chop_spans([Span("ab"), Span("漢c")], 3)] == ["ab", "漢c"]
    assert format_row(clip_spans([Span("abcdef")], 4)) == "abc…"
    assert format_row(clip_spans([Span("abcd")], 4)) == "abcd"


def test_a_style_is_named_once_for_all_that_has_it() -> None:
    row = [Span("a", "1"), Span(" ", "1"), Span("b", "1", "https://x.y"), Span("c")]
    assert (
        format_row(row) == "\x1b[1ma \x1b[0m\x1b]8;;https://x.y\x1b\\\x1b[1mb\x1b[0m\x1b]8;;\x1b\\c"
    )
    assert format_row(row, links=False) == "\x1b[1ma \x1b[0m\x1b[1mb\x1b[0mc"


SNIPPETS = [
    "def f(x):\n    '''doc\n    more'''\n    return f'{x!r}' # c\n",
    "<?php $a = <<<E\nx\nE;\n?><script>let a = `x${1}`</script>\n<!-- a\nb -->\n",
    "{\n  \"a\": [1, 2.5, null]\n}\n",
    "a: |\n  b\n# c\n- d: [1]\n",
    "/* a\n * b */ int x = 'c'; \"s\\\n\" $ @ ` \\ %{y}\n",
    "#{x} <<EOF\n$(a `b`)\nEOF\n[[ x ]] (* y *) |z| --[[ w ]]\n",
]  # fmt: skip


@pytest.mark.laws
@pytest.mark.parametrize("snippet", SNIPPETS)
def test_no_lexer_changes_or_loses_what_it_colors(snippet: str) -> None:
    lines = snippet.split("\n")
    for _, names, *_rest in get_all_lexers():
        if names:
            colors = Colors(find_lexer(names[0]), DARK)
            rows = [row for each in lines for row in colors.add(each)] + colors.end()
            assert ["".join(span.text for span in row) for row in rows] == lines


LANGUAGES = ["python", "js", "ts", "tsx", "json", "yaml", "toml", "bash", "console", "c", "cpp", "rust",
             "go", "java", "html", "css", "php", "ruby", "sql", "diff", "make", "docker", "lua"]  # fmt: skip


@pytest.mark.parametrize("snippet", SNIPPETS)
def test_colors_change_and_lose_nothing(snippet: str) -> None:
    lines = snippet.split("\n")
    for name in LANGUAGES:
        colors = Colors(find_lexer(name), DARK)
        rows = [row for each in lines for row in colors.add(each)] + colors.end()
        assert ["".join(span.text for span in row) for row in rows] == lines


def test_rules_that_lead_in_a_circle_or_nowhere_end() -> None:
    from pygments.lexer import RegexLexer
    from pygments.token import Keyword

    class Circle(RegexLexer):
        name = "circle"
        tokens: ClassVar = {
            "root": [
                ("a", Keyword, "#push"),
                ("b", Keyword, "in"),
                ("c", Keyword, ("#push", "#pop")),
            ],
            "in": [("", Keyword, "#pop:2"), ("z", Keyword)],
        }

    colors = Colors(Circle(), DARK)
    assert ["".join(s.text for s in colors.line(each)) for each in ("aabbc", "?", "b")] == [
        "aabbc",
        "?",
        "b",
    ]


@pytest.mark.parametrize("name", LANGUAGES)
def test_a_lexer_that_is_made_late_colors_as_a_whole_one(name: str) -> None:
    text = 'def größe(x): return "a\\n" + 0x1f  # end\n/* a */ <b c="d">&amp;</b>\n- k: [1, true]\n$x = \'y\';\n'
    assert lexed(find_lexer(name), text, ("root",)) == lexed(
        get_lexer_by_name(name), text, ("root",)
    )


def test_of_a_lexers_tables_those_are_made_that_a_text_comes_into() -> None:
    lexer: Any = late(PythonLexer)
    assert list(lexer._tokens) == []
    lexed(lexer, "x = 1\n", ("root",))
    assert set(lexer._tokens) < {"root", "expr"}
    lexed(lexer, 'x = "a"\n', ("root",))
    assert 1 < len(lexer._tokens) < 6 < len(PythonLexer()._tokens)


@pytest.mark.parametrize("name", ["python", "javascript", "c", "bash", "rust", "go", "sql"])
def test_colors_line_by_line_are_those_of_the_whole(name: str) -> None:
    code = {
        "python": "class A:\n    '''a\n    b'''\n\n    def f(self): return {1: 'x'}\n",
        "javascript": "const a = `x\n${b} y`;\nfunction f() { return /re/g }\n",
        "bash": 'if [ -f x ]; then\n  echo "a\nb" | grep c\nfi\n',
    }.get(name, "int f(int x) {\n  return x + 1;\n}\n")
    lexer = get_lexer_by_name(name)
    stack: tuple[str, ...] = ("root",)
    pieces = []
    for each in code.split("\n")[:-1]:
        more, stack = lexed(lexer, each + "\n", stack)
        pieces += more
    whole, _ = lexed(lexer, code, ("root",))
    assert _marks(pieces) == _marks(whole)
    assert _marks(whole) == _marks(
        [(kind, value) for _, kind, value in lexer.get_tokens_unprocessed(code)]
    )


def _marks(pieces: list[tuple[object, str]]) -> list[str]:
    """The kind of each character that shows."""
    return [
        str(kind).replace("String.Doc", "String.Single")
        for kind, value in pieces
        for c in value
        if not c.isspace()
    ]


def test_code_without_a_language_or_with_endless_lines_stays_plain() -> None:
    assert Colors(None, DARK).add("\tx = 1") == [[Span("    x = 1")]]
    assert Colors(find_lexer("python"), DARK).add("x" * 3000) == [[Span("x" * 3000)]]
    assert find_lexer("no-such-language") is None
    assert find_lexer_for_file("a/b.nothing") is None
    found = {
        name: find_lexer_for_file(name)
        for name in ("a/b.PY", "x.ts", "x.h", "Makefile", "src/Dockerfile", "")
    }
    assert [each and each.name for each in found.values()] == [
        "Python", "TypeScript", "C", "Makefile", "Docker", None,
    ]  # fmt: skip
    get_ready()
    assert Colors(find_lexer("python"), DARK).line("") == []
    assert [read_language(info) for info in ("py", "{.py}", "js,linenos", "", " ")] == [
        "py",
        "py",
        "js",
        "",
        "",
    ]


def test_only_what_is_a_patch_is_taken_for_one() -> None:
    good = {"oldStart": 1, "newStart": 1, "lines": [" a"]}
    assert results.is_patch([good])
    for bad in (
        [],
        None,
        [1],
        [good | {"lines": [1]}],
        [good | {"oldStart": "1"}],
        [{"lines": "x"}],
    ):
        assert not results.is_patch(bad)
    rows = [
        format_row(row)
        for row in results.rows_of([good | {"lines": ["", "?x", "+y"]}], "", BARE, 9)
    ]
    assert [row.rstrip() for row in rows] == ["1", "2 ? x", "3 + y"]


PNG = b"\x89PNG\r\n\x1a\n" + b"\0\0\0\rIHDR"


def png(wide: int, high: int) -> str:
    return b64encode(PNG + wide.to_bytes(4, "big") + high.to_bytes(4, "big") + b"\0" * 9).decode()


@pytest.mark.parametrize(
    "data", ["", "\x1b", "AAAA", "A", png(0, 5), b64encode(b"GIF89a" + b"\0" * 40).decode(), 7]
)
def test_what_is_no_picture_is_not_drawn(data: object) -> None:
    assert results.drawn({"data": data}, "kitty", 80) == []
    assert results.drawn({"data": png(10, 10)}, "", 80) == []
    assert results.drawn({"data": png(10, 10)}, "kitty", 3) == []
    assert results.drawn("x", "kitty", 80) == []


def jpeg(*segments: bytes) -> str:
    return b64encode(b"\xff\xd8" + b"".join(segments)).decode()


FRAME = b"\xff\xc2\x00\x0b\x08\x00\x64\x00\xc8" + bytes(4)
EXIF = b"\xff\xe1\x01\x02" + bytes(256)


@pytest.mark.parametrize(
    "data", [jpeg(EXIF, FRAME), b64encode(b"GIF89a\xc8\x00\x64\x00" + bytes(9)).decode()]
)
def test_where_a_terminal_takes_more_than_png_it_is_given_that(data: str) -> None:
    assert results.size_of(data, "iterm2") == (200, 100)
    assert f":{data}\x07" in results.drawn({"data": data}, "iterm2", 80)[-1]
    assert results.drawn({"data": data}, "kitty", 80) == []


@pytest.mark.parametrize(
    "data", [jpeg(EXIF), jpeg(b"\xff\xe1"), jpeg(b"\xffxxxxxxxxxxxxx"), "R0lGODlh", "/9j/"]
)
def test_a_picture_that_does_not_say_its_size_is_not_drawn(data: str) -> None:
    assert results.drawn({"data": data}, "iterm2", 80) == []


def test_a_picture_keeps_its_shape_in_the_room_there_is() -> None:
    assert results.fitted(400, 200, 80) == (40, 10)
    assert results.fitted(4000, 200, 80) == (80, 2)
    assert results.fitted(10, 4000, 80) == (1, 14)
    assert len(results.drawn({"data": png(10, 10)}, "kitty", 80)) == 1


def test_output_is_read_as_a_terminal_would_leave_it() -> None:
    assert lines_of("") == []
    assert lines_of("a\n\nb\n") == ["a", "", "b"]
    assert lines_of("1%\r50%\r100%\r\ndone\x1b[0m\x1b]0;t\x07\r\n") == ["100%", "done"]


def test_of_very_many_folds_the_newest_are_kept() -> None:
    folds = Folds("")
    for number in range(KEPT + 5):
        assert folds.keep(f"n{number}", lambda width: []) == ""
    assert len(folds.names) == KEPT
    assert folds.names[0] == "6 n5"


@pytest.mark.parametrize(
    ("text", "rows"),
    [
        ("name   some words here", ["name   some words", "       here"]),
        ("  ok some words and more", ["  ok some words and", "  more"]),
        ("some words that go on", ["some words that go", "on"]),
        ("a first column wide  words", ["a first column wide", "words"]),
        ("", [""]),
    ],
)
def test_what_goes_on_below_stands_under_its_column(text: str, rows: list[str]) -> None:
    assert [format_row(row) for row in hang_lines(text, "", 20)] == rows
