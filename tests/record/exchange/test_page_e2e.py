"""The exported page in a real browser: it runs without a fault, searches, and is not blank."""

import shutil
import subprocess
import zlib
from pathlib import Path

import pytest

from tests.commands.sessions.place import Place
from tests.record.exchange.test_export import EVERYTHING
from tests.record.transcript.build import SESSION, call, result, said, talk, user

CHROMIUM = (
    shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
)

# Types a word into the page's own search and leaves what came of it in the title.
PROBE = """<script>addEventListener('load',()=>{const f=document.getElementById('find');
f.value='needle';f.dispatchEvent(new Event('input'));
setTimeout(()=>{document.body.setAttribute('data-found',document.getElementById('count').textContent+
'|'+document.querySelectorAll('mark').length+'|'+document.querySelectorAll('mark.now').length)},400)})
</script></body>"""


def browser(*args: str, profile: Path) -> subprocess.CompletedProcess[bytes]:
    assert CHROMIUM is not None, "no Chromium here: on Debian, apt-get install chromium"
    return subprocess.run(
        [
            CHROMIUM, "--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars",
            f"--user-data-dir={profile}", "--virtual-time-budget=5000", *args,
        ],
        capture_output=True,
        timeout=120,
        check=False,
    )  # fmt: skip


@pytest.mark.e2e
def test_the_page_reads_and_searches_in_a_browser(tmp_path: Path) -> None:
    place = Place(tmp_path)
    long = "\n".join(f"line {n}" for n in range(80)) + "\nthe needle in long output"
    place.write(
        [
            *EVERYTHING,
            user("q", "a", "Where is the needle?"),
            said("g2", "q", call("grep -n needle hay")),
            result("o2", "g2", "grep -n needle hay"),
            user("l2", "o2", long),
            *talk(3, first="l2", start=50),
        ]
    )
    place.clew("export", SESSION, "page.html")
    page = place.cwd / "page.html"
    probed = place.cwd / "probed.html"
    probed.write_text(page.read_text("utf-8").replace("</body>", PROBE), "utf-8")
    dom = browser("--dump-dom", probed.as_uri(), profile=tmp_path / "a").stdout.decode()
    found = dom.split('data-found="', 1)[1].split('"', 1)[0]
    place_now, marks, current = found.split("|")
    assert place_now == f"1 of {marks}"
    assert int(marks) >= 4
    assert current == "1"
    shot = tmp_path / "page.png"
    seen = browser(
        f"--screenshot={shot}", "--window-size=1200,1600", "--enable-logging=stderr",
        page.as_uri(), profile=tmp_path / "b",
    )  # fmt: skip
    assert b"CONSOLE" not in seen.stderr, seen.stderr
    assert colors(shot.read_bytes()) > 5


def colors(png: bytes) -> int:
    """How many different bytes the picture has: a blank page has next to none."""
    at, data = 8, b""
    while at < len(png):
        size = int.from_bytes(png[at : at + 4])
        if png[at + 4 : at + 8] == b"IDAT":
            data += png[at + 8 : at + 8 + size]
        at += size + 12
    return len(set(zlib.decompress(data)))
