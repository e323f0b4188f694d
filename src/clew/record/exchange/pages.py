"""Render an account as one self-contained HTML page, without network, fonts or other files.

All text in a session is escaped and never interpreted as markup. Responses are rendered as
Markdown, as in the terminal; prompts are shown as they were typed. Does no I/O.
"""

import re
from collections.abc import Iterator

from clew.record.exchange.account import NEWS, NOTICE, Account, ConversationAccount, Piece
from clew.record.exchange.prose import escaped, prose

# An account as Markdown. No I/O.


_HEADS = {"person": "## Prompt", "model": "### Response"}


def render_markdown(account: Account) -> str:
    return "\n".join(_lines(account)).rstrip() + "\n"


def _lines(account: Account) -> Iterator[str]:
    yield f"# {_on_one_line(account.title)}"
    yield ""
    for name, value in (
        ("session", account.session_id),
        ("folder", account.cwd),
        ("branch", account.branch),
        ("started", account.created_at),
        ("models", ", ".join(account.models)),
    ):
        if value:
            yield f"- {name}: {_on_one_line(value)}"
    yield ""
    for talk in account.talks:
        if talk.agent:
            yield f"# Subagent {talk.agent}: {_on_one_line(talk.title)}"
            yield ""
        yield from _talk(talk)


def _talk(talk: ConversationAccount) -> Iterator[str]:
    for piece in talk.pieces:
        yield from _piece(piece)
        yield ""


def _piece(piece: Piece) -> Iterator[str]:
    match piece.voice:
        case "person" | "model":
            yield f"{_HEADS[piece.voice]}{_when(piece)}"
            yield ""
            yield piece.text
        case "call":
            yield f"**{piece.name}**"
            yield from fenced(piece.text)
        case "result":
            label = "Error" if piece.is_error else "Result"
            yield f"{label}:"
            yield from fenced(piece.text)
        case "image":
            yield f"[{_on_one_line(piece.text)}]"
        case _:
            yield f"<details><summary>{_on_one_line(_label(piece))}</summary>"
            yield ""
            yield from fenced(piece.text)
            yield ""
            yield "</details>"


def _label(piece: Piece) -> str:
    """Return the label of text that neither the user nor the model addressed to the other."""
    match piece.voice:
        case "context":
            return f"For the model, not written by the user: {piece.name or 'context'}"
        case "thinking":
            return "Thinking"
        case _:
            return piece.name or "Note"


def _when(piece: Piece) -> str:
    return f" · {piece.timestamp[:16].replace('T', ' ')}" if piece.timestamp else ""


def fenced(text: str) -> Iterator[str]:
    """Yield a fenced block whose fence is longer than any run of backticks in the text."""
    longest = max((len(run) for run in re.findall(r"`+", text)), default=0)
    fence = "`" * max(3, longest + 1)
    yield fence
    yield text.rstrip("\n")
    yield fence


def _on_one_line(text: str) -> str:
    return " ".join(text.split()).replace("<", "&lt;")


# The style and script of an exported page, embedded because the page is one file. No I/O.


STYLE = """
:root{color-scheme:light dark;--ink:#1b1e22;--soft:#5a6068;--paper:#fbfbf9;--line:#e3e3dd;
--mine:#eef2fd;--box:#f3f3ef;--bad:#b3261e;--mark:#ffe08a;--link:#2f55c8;--new:#1b6e3c;
--keyword:#8a1c7c;--number:#87550a;--type:#0b6470}
@media(prefers-color-scheme:dark){:root{--ink:#e6e8ea;--soft:#9aa2ab;--paper:#101214;
--line:#282c31;--mine:#1a2234;--box:#0b0d0e;--bad:#ff8f85;--mark:#6b5200;--link:#8fb0ff;--new:#7fd49a;
--keyword:#d79be0;--number:#d7af87;--type:#84d0d3}}
*{box-sizing:border-box}
body{margin:0;background:var(--paper);color:var(--ink);font:16px/1.55 system-ui,sans-serif}
header{max-width:76rem;margin:0 auto;padding:1.6rem 1.2rem .4rem}
h1{font-size:1.4rem;line-height:1.3;margin:0 0 .3rem;overflow-wrap:anywhere}
header p{margin:.1rem 0;color:var(--soft);font-size:.88rem;overflow-wrap:anywhere}.id{font-family:monospace}
nav{position:sticky;top:0;z-index:1;background:var(--paper);border-bottom:1px solid var(--line);
padding:.6rem 1.2rem;display:flex;gap:1rem;align-items:center;justify-content:center;flex-wrap:wrap}
nav label,#count{color:var(--soft);font-size:.88rem}#count{min-width:5rem}
#find{flex:0 1 26rem;font:inherit;color:inherit;background:var(--box);border:1px solid var(--line);
border-radius:6px;padding:.35rem .6rem}
.columns{display:flex;max-width:76rem;margin:0 auto;gap:2rem;padding:0 1.2rem}
aside{flex:0 0 15rem;font-size:.85rem;position:sticky;top:3.6rem;align-self:flex-start;
max-height:calc(100vh - 4rem);overflow:auto;padding:1rem 0}
aside ol{padding-left:1.4rem;margin:0}aside li{margin:.35rem 0;color:var(--soft)}
aside a{color:inherit;text-decoration:none;overflow-wrap:anywhere}aside a:hover{color:var(--link)}
.agent{list-style:"↳ "}
main{flex:1;min-width:0;padding:1rem 0 6rem}
article{margin:1.2rem 0;overflow-wrap:anywhere}
article p{margin:.6rem 0}article h3{font-size:1.15rem;margin:1.1rem 0 .4rem}
article h4,article h5,article h6{font-size:1rem;margin:1rem 0 .3rem}
article :is(ul,ol){padding-left:1.6rem;margin:.5rem 0}li>p{margin:.15rem 0}
blockquote{border-left:3px solid var(--line);margin:.6rem 0;padding-left:.9rem;color:var(--soft)}
hr{border:0;border-top:1px solid var(--line)}.soft{color:var(--soft)}main a{color:var(--link)}
.person p{white-space:pre-wrap}
.c-keyword{color:var(--keyword)}.c-string{color:var(--new)}.c-number{color:var(--number)}
.c-comment{color:var(--soft);font-style:italic}.c-name{color:var(--link)}.c-type{color:var(--type)}
.c-error,.c-removed{color:var(--bad)}.c-added{color:var(--new)}.c-heading{font-weight:bold}
.person{background:var(--mine);border-radius:10px;padding:.4rem 1rem;scroll-margin-top:4rem}
.call,.result,.aside{border-left:3px solid var(--line);padding:.1rem 0 .1rem .9rem;margin:.5rem 0;
font-size:.9rem}
.call b{font-size:.85rem;color:var(--soft)}.result{margin-top:-.3rem}.error{border-color:var(--bad)}
.error pre{color:var(--bad)}
pre{background:var(--box);border-radius:6px;padding:.6rem .8rem;overflow:auto;white-space:pre-wrap;
overflow-wrap:anywhere;font:.84rem/1.45 ui-monospace,monospace;margin:.3rem 0;tab-size:4}
pre.long{max-height:18em;cursor:zoom-in}pre.open{max-height:none;cursor:auto}
code{background:var(--box);border-radius:4px;padding:.1em .3em;font:.88em ui-monospace,monospace}
table{border-collapse:collapse;margin:.6rem 0;display:block;overflow:auto}
th,td{border:1px solid var(--line);padding:.25rem .6rem;text-align:left;overflow-wrap:break-word}
.right{text-align:right}.center{text-align:center}
ins,del{text-decoration:none}ins{color:var(--new)}del{color:var(--bad)}
summary{color:var(--soft);cursor:pointer;font-size:.85rem}
.subagent{border:1px solid var(--line);border-radius:10px;padding:.2rem 1rem;margin:2rem 0}
.subagent h2{font-size:1.05rem}img{max-width:100%}.file{color:var(--soft)}
mark{background:var(--mark);color:inherit}mark.now{outline:2px solid var(--link)}
.nocalls .call,.nocalls .result,.nothoughts .aside{display:none}
@media(max-width:52rem){aside{display:none}}
@media print{nav,aside{display:none}pre.long{max-height:none}}
"""

SCRIPT = """
(()=>{
const main=document.querySelector('main'),find=document.getElementById('find'),
count=document.getElementById('count'),calls=document.getElementById('calls'),
thoughts=document.getElementById('thoughts');
let marks=[],now=-1,timer=0;
const show=()=>{main.classList.toggle('nocalls',!calls.checked);
main.classList.toggle('nothoughts',!thoughts.checked)};
calls.onchange=thoughts.onchange=show;show();
main.addEventListener('click',e=>{const p=e.target.closest('pre.long');
if(p&&!String(getSelection()))p.classList.add('open')});
const clear=()=>{for(const m of marks){const p=m.parentNode;if(!p)continue;
p.replaceChild(document.createTextNode(m.textContent),m);p.normalize()}marks=[];now=-1};
const search=()=>{clear();const word=find.value.toLowerCase();
if(word.length<2){count.textContent='';return}
const walk=document.createTreeWalker(main,NodeFilter.SHOW_TEXT),found=[];let node;
while((node=walk.nextNode())){const text=node.data.toLowerCase();let at=text.indexOf(word);
if(at>=0&&text.length===node.data.length)found.push(node)}
for(const node of found){let rest=node,at;
while((at=rest.data.toLowerCase().indexOf(word))>=0&&marks.length<5000){
const hit=rest.splitText(at);rest=hit.splitText(word.length);
const mark=document.createElement('mark');hit.parentNode.replaceChild(mark,hit);
mark.appendChild(hit);marks.push(mark)}}
step(1)};
const step=by=>{if(!marks.length){count.textContent=find.value.length>1?'no matches':'';return}
if(now>=0)marks[now].classList.remove('now');now=(now+by+marks.length)%marks.length;
const mark=marks[now];mark.classList.add('now');const aside=mark.closest('details');
if(aside){aside.open=true;if(!thoughts.checked){thoughts.checked=true;show()}}
if(mark.closest('.call,.result')&&!calls.checked){calls.checked=true;show()}
const long=mark.closest('pre.long');if(long)long.classList.add('open');
mark.scrollIntoView({block:'center'});count.textContent=(now+1)+' of '+marks.length};
find.oninput=()=>{clearTimeout(timer);timer=setTimeout(search,150)};
find.onkeydown=e=>{if(e.key==='Enter'){e.preventDefault();
if(marks.length)step(e.shiftKey?-1:1);else search()}};
addEventListener('keydown',e=>{if(e.key==='/'&&e.target!==find){e.preventDefault();find.focus()}});
})();
"""


# Longer text is folded until the reader opens it.
FOLDED_LINES = 14
IMAGES = frozenset({"image/png", "image/jpeg", "image/gif", "image/webp"})


def render_html(account: Account) -> str:
    return "".join(_page(account))


def _page(account: Account) -> Iterator[str]:
    title = escaped(" ".join(account.title.split()))
    yield f'<!doctype html>\n<html lang="en"><head><meta charset="utf-8"><title>{title}</title>\n'
    yield (
        '<meta http-equiv="Content-Security-Policy" content="default-src \'none\'; '
        "img-src data:; style-src 'unsafe-inline'; script-src 'unsafe-inline'\">\n"
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<style>{STYLE}</style></head><body>\n<header><h1>{title}</h1><p>"
    )
    facts = (
        account.cwd,
        account.branch,
        account.created_at[:16].replace("T", " "),
        *account.models,
    )
    yield " · ".join(escaped(fact) for fact in facts if fact)
    yield (
        f'</p><p class="id">{escaped(account.session_id)}</p></header>\n'
        '<nav><input id="find" type="search" placeholder="Search (Enter: next, Shift+Enter: '
        'previous)" aria-label="Search"><span id="count"></span>'
        '<label><input type="checkbox" id="calls" checked> tool calls</label>'
        '<label><input type="checkbox" id="thoughts"> thinking and text for the model</label></nav>\n'
        '<div class="columns"><aside><ol>'
    )
    yield from _contents(account)
    yield "</ol></aside><main>\n"
    for talk in account.talks:
        yield from _talk_as_html(talk)
    yield f"</main></div><script>{SCRIPT}</script></body></html>\n"


def _contents(account: Account) -> Iterator[str]:
    for talk in account.talks:
        if talk.agent:
            yield f'<li class="agent"><a href="#agent-{escaped(talk.agent)}">{escaped(talk.title[:60])}</a></li>'
            continue
        for number, piece in enumerate(talk.pieces):
            if piece.voice == "person" and piece.text.strip():
                short = escaped(" ".join(piece.text.split())[:80])
                yield f'<li><a href="#p{number}">{short}</a></li>'


def _talk_as_html(talk: ConversationAccount) -> Iterator[str]:
    agent = escaped(talk.agent)
    if agent:
        yield (
            f'<section class="subagent" id="agent-{agent}"><h2>Subagent: '
            f"{escaped(talk.title)}</h2>\n"
        )
    for number, piece in enumerate(talk.pieces):
        place = "" if agent else f' id="p{number}"'
        yield from _piece_as_html(piece, place)
    if agent:
        yield "</section>\n"


def _piece_as_html(piece: Piece, place: str) -> Iterator[str]:
    when = escaped(piece.timestamp[:19].replace("T", " "))
    title = f' title="{when}"' if when else ""
    if piece.voice == "person":
        text = escaped(piece.text.strip("\n"))
        yield f'<article class="person"{place}{title}><p>{text}</p></article>\n'
    elif piece.voice == "model":
        yield f'<article class="model"{place}{title}>{prose(piece.text)}</article>\n'
    elif piece.name in (NEWS, NOTICE):
        yield f'<p class="file"{title}>{piece.name}: {escaped(piece.text)}</p>\n'
    elif piece.voice == "image":
        yield _image(piece)
    elif piece.voice == "call":
        content = changed(block(piece.text)) if piece.name == "Edit" else block(piece.text)
        yield f'<div class="call"{place}{title}><b>{escaped(piece.name)}</b>{content}</div>\n'
    elif piece.voice == "result":
        bad = " error" if piece.is_error else ""
        yield f'<div class="result{bad}"{title}>{block(piece.text)}</div>\n'
    else:
        label = escaped(_label(piece))
        yield (
            f'<details class="aside"{title}><summary>{label}</summary>{block(piece.text)}</details>\n'
        )


def _image(piece: Piece) -> str:
    if piece.media in IMAGES and re.fullmatch(r"[A-Za-z0-9+/=\s]+", piece.data):
        return f'<img alt="" src="data:{piece.media};base64,{piece.data}">\n'
    return f'<p class="file">{escaped(piece.text)}</p>\n'


def block(text: str) -> str:
    """Return preformatted text; long text is folded."""
    text = text.rstrip("\n")
    if text.count("\n") < FOLDED_LINES and len(text) < 4000:
        return f"<pre>{escaped(text)}</pre>" if text else ""
    return f'<pre class="long">{escaped(text)}</pre>'


_CHANGED = re.compile(r"^([+-])(.*?)(?=\n|</pre>)", re.M)


def changed(content: str) -> str:
    """Mark the added and removed lines in a block."""
    tags = {"+": "ins", "-": "del"}
    return _CHANGED.sub(lambda line: f"<{tags[line[1]]}>{line[0]}</{tags[line[1]]}>", content)
