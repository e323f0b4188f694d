"""HTML as Markdown: what is shown, what is not, and that no page makes it slow."""

from urllib.parse import urljoin

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clew.system.web_page import Page, convert_to_markdown


def text(html: str) -> str:
    return convert_to_markdown(html, base="https://example.com/docs/page.html", join=urljoin).text


@pytest.mark.parametrize(
    ("html", "shown"),
    [
        ("<h1>A</h1><p>one  two\nthree</p><p>four</p>", "# A\n\none two three\n\nfour"),
        ("<h3>C</h3>text", "### C\n\ntext"),
        ("a <b>bold</b> and <i>soft</i> <code>x</code>", "a **bold** and *soft* `x`"),
        ("a<b> b </b>c", "a **b** c"),
        ("<b></b>x<i> </i>y", "xy"),
        ('<a href="x.html">go</a>', "[go](https://example.com/docs/x.html)"),
        ('see <a href="/y?a=1&amp;b=2">here </a>now', "see [here](https://example.com/y?a=1&b=2) now"),
        ("<a href='#top'>up</a> <a href='javascript:x()'>run</a> <a>none</a>", "up run none"),
        ("<a href='x'></a>", ""),
        ("<a href='http://[bad'>w</a>", "w"),
        ("<a href=a>one <a href=b>two", "[one](https://example.com/docs/a) [two](https://example.com/docs/b)"),
        ("<a href=a><p>one</p><p>two</p></a>", "one\n\ntwo"),
        ("<base href='/b/'><a href=c>d</a>", "[d](https://example.com/b/c)"),
        ("<ul><li>one<li><p>two</p></ul>end", "- one\n- two\n\nend"),
        ("<ol><li>a<ul><li>b</ul><li>c</ol>", "1. a\n  - b\n2. c"),
        ("<li>alone", "- alone"),
        ("<pre>a  &lt;b&gt;\n  c</pre>", "```\na  <b>\n  c\n```"),
        ("<pre><code>x</code> <b>y</b></pre></pre>", "```\nx y\n```"),
        ("<blockquote><p>a</p><p>b</p></blockquote>c", "> a\n>\n> b\n\nc"),
        ("<blockquote>open", "> open"),
        ("</blockquote></ul></tr></a>x", "x"),
        ("<table><tr><th>A<th>B</tr><tr><td>1<td><p>2</p><br>3</tr></table>", "| A | B |\n|---|---|\n| 1 | 2 3 |"),
        ("<table><tr><td></td></tr><tr><td>x<ul><li>y</ul></td></tr></table>", "| x y |\n|---|"),
        ("one<br>two<hr>three", "one\ntwo\n\n---\n\nthree"),
        ("<img src=a.png alt='A cat'><img src=b.png>", "![A cat](https://example.com/docs/a.png)"),
        ("a<script>alert('<p>x</p>')</script>b<style>p{}</style>c", "abc"),
        ("a<script>never ended", "a"),
        ("a<!-- <p>x</p> -->b<!-- never ended", "ab"),
        ("a<!doctype html><?xml?>b</ >c<!never ended", "abc<!never ended"),
        ("x<div hidden>no<div>no</div>no</div>y<p aria-hidden='true'>no</p>z", "xyz"),
        ("x<div style='display: none'>no</div>y<span class='hiddenx none'>yes</span>", "xyyes"),
        ("x<div hidden>never ended<div hidden>too", "x\n\nnever ended\n\ntoo"),
        ("x<div hidden>a</div", "x"),
        ("x<x.y hidden>a", "xa"),
        ("1 < 2 and <3 and a<", "1 < 2 and <3 and a<"),
        ('<p title="a > b">x</p>', "x"),
        ("<p title='a > b' class=\"it's\">x</p>", "x"),
        ('<p title="open>x</p>', "x"),
        ("<p\nclass=x>y</p>", "y"),
        ("<P>Y</P><BR/>z", "Y\n\nz"),
        ("<span>a</span> <span>b</span>", "a b"),
        ("<img src=\"data:" + "A" * 20_000 + "\">x", "x"),
        ("<blockquote>" * 30 + "deep", ">" + " >" * 7 + " deep"),
        ("&lt;b&gt; &amp; &copy;", "<b> & ©"),
        ("<dl><dt>a<dd>b</dl><ul></ul>", "a\n\nb"),
        ("1 < 2 > 3 <4> <", "1 < 2 > 3 <4> <"),
        ("a </b>c", "a c"),
        ("< <b>x</b>", "< **x**"),
        ("</b>a", "a"),
        ("  <p>  </p> x", "x"),
        ("", ""),
    ],
)  # fmt: skip
def test_a_page_reads_as_its_reader_sees_it(html: str, shown: str) -> None:
    assert text(html) == shown


def test_the_title_stands_apart() -> None:
    page = convert_to_markdown(
        "<head><title>A &amp;\n B</title></head><title>C</title>x", base="", join=urljoin
    )
    assert page == Page(title="A & B", text="x")
    assert convert_to_markdown("<title>open", base="", join=urljoin).title == "open"


@given(st.text(alphabet="<>/ab !-\"'=\n&;#hidenprtuloqs", max_size=300))
def test_every_text_is_a_page(html: str) -> None:
    convert_to_markdown(html, base="https://example.com/", join=urljoin)
