"""Web pages: from HTML to Markdown, compared with the standard library's parser without conversion."""

from collections.abc import Iterator
from functools import partial
from html.parser import HTMLParser
from urllib.parse import urljoin

from benchmarks.measure import Figure, cpu_s
from clew.system.web_page import convert_to_markdown

PAGE_BYTES = 170_000
WORDS = (
    "A page of documentation says what a thing is for, how it is called and what comes back. " * 4
)
SECTION = f"""
<section class="c"><h2 id="s">A heading</h2><p>{WORDS}<a class="reference internal" href="page.html#x"
title="t">a link</a> {WORDS}<code class="docutils literal"><span class="pre">code()</span></code>.</p>
<ul><li><p>{WORDS}</p></li><li><p>two &lt;x&gt; {WORDS}</p></li></ul>
<div class="highlight"><pre><span class="k">def</span> <span class="nf">f</span>():\n    pass</pre></div>
<table><tr><th>Name</th><th>Meaning</th></tr><tr><td>a</td><td>{WORDS}</td></tr></table></section>"""
SPANS = '<span class="k">def</span> <span class="nf">f</span><span class="p">():</span>\n' * 40


class Listener(HTMLParser):
    """A parser that only collects the text."""

    def __init__(self) -> None:
        super().__init__()
        self.words: list[str] = []

    def handle_data(self, data: str) -> None:
        self.words.append(data)


def listened(page: str) -> None:
    listener = Listener()
    listener.feed(page)
    listener.close()


def figures() -> Iterator[Figure]:
    for name, part in (("prose", SECTION), ("nothing but spans", f"<pre>{SPANS}</pre>")):
        page = f"<html><body>{part * (PAGE_BYTES // len(part))}</body></html>"
        ours = cpu_s(partial(convert_to_markdown, page, base="https://example.com/", join=urljoin))
        peer = cpu_s(partial(listened, page))
        yield Figure(
            name=f"{len(page) // 1000} KB of {name}, {page.count('<'):,} tags",
            value=ours * 1000,
            unit="ms",
            at_most=20 if name == "prose" else None,
            note=f"{ours / peer:.2f} x html.parser without an output",
        )
