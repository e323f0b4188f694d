"""Pages: aligned figures, bars that leave first, and notes that nothing cuts."""

from decimal import Decimal

import pytest

from clew.core.messages.text import format_tokens
from clew.core.page import (
    PageGroup,
    PageRow,
    ReportPage,
    draw_bar,
    format_page,
    format_share,
    lay_out,
    pairs,
)

PAGE = ReportPage(
    title="Fruit",
    summary="3 kinds",
    groups=(
        PageGroup(
            title="Stock",
            columns=("pieces", "share"),
            rows=(
                PageRow(label="Äpfel 🍎", cells=("1,200", "99.9%"), share=1.0),
                PageRow(label="Pear", cells=("1", "0.1%"), share=0.001, note="old"),
            ),
        ),
        pairs([("Where", "in the cellar"), ("When", "")], "Storage"),
        PageGroup(rows=()),
    ),
    hints=("eat it", "leave it"),
)


def lines(width: int, *, page: ReportPage = PAGE, has_bars: bool = True) -> list[str]:
    laid_out = lay_out(page, width, has_bars=has_bars)
    return ["".join(text for text, _ in line).rstrip() for line in laid_out]


def test_figures_are_aligned_to_the_right_and_bars_follow_them() -> None:
    assert lines(60) == [
        "Fruit  3 kinds",
        "",
        "Stock       pieces  share",
        "  Äpfel 🍎   1,200  99.9%  ████████████████████",
        "  Pear           1   0.1%  ▏░░░░░░░░░░░░░░░░░░░  old",
        "",
        "Storage",
        "  Where  in the cellar",
        "  When",
        "",
        "",
        "eat it · leave it",
    ]


def test_bars_leave_where_there_is_no_room_and_plain_text_has_none() -> None:
    assert not any("█" in line for line in lines(40))
    assert "  Pear           1   0.1%  old" in lines(40)
    text = format_page(PAGE)
    assert "█" not in text
    assert "99.9%" in text
    assert "█" in format_page(PAGE, has_bars=True)


def test_a_long_label_has_a_line_of_its_own() -> None:
    long = PageGroup(rows=(PageRow(label="x" * 50, cells=("1",)), PageRow(label="y", cells=("2",))))
    page = ReportPage(title="Long", groups=(long,))
    assert lines(80, page=page)[2:] == [f"  {'x' * 50}", f"{'':42}  1", f"  {'y':40}  2"]


@pytest.mark.parametrize(
    ("amount", "most", "bar"),
    [
        (0, 8, ""),
        (1, 0, ""),
        (1, 1_000_000, "▏"),
        (4, 8, "██"),
        (9, 8, "████"),
        (Decimal(3), 8, "█▌"),
    ],
)
def test_a_bar_is_never_longer_than_its_room_and_shows_the_smallest_amount(
    amount: Decimal | int, most: int, bar: str
) -> None:
    assert draw_bar(amount, most, 4) == bar


def test_a_share_is_never_rounded_to_nothing() -> None:
    assert [format_share(*pair) for pair in ((0, 5), (1, 9999), (1, 3), (1, 0))] == [
        "0.0%",
        "<0.1%",
        "33.3%",
        "0.0%",
    ]


def test_tokens_are_short() -> None:
    numbers = (512, 1_000, 12_345, 200_000, 1_000_000, 1_250_000)
    assert list(map(format_tokens, numbers)) == ["512", "1k", "12.3k", "200k", "1M", "1.2M"]
