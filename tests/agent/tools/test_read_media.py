"""Read for other files than text.

Images and documents within the service's limits, notebooks, folders.
"""

import json
from base64 import b64decode
from pathlib import Path
from typing import Any

import pytest

from clew.agent.tools import media, notebook, read
from clew.agent.tools.base import Surroundings, ToolOutcome
from clew.agent.tools.files import NOT_READ
from clew.agent.tools.notebook_edit import NotebookEdit
from clew.agent.tools.read import Read
from clew.agent.tools.search_tools import LS
from clew.agent.tools.write import Write
from clew.core.normalize.shapes import detect_picture_type, read_picture_size
from clew.testing.server import serving
from tests.agent.tools.pictures import pages_of, pdf, picture, png
from tests.agent.tools.workshop import Workshop
from tests.fronts.headless.clew_process import clew, transcripts
from tests.fronts.headless.test_print import entries, scenario


def blocks(result: ToolOutcome) -> list[dict[str, Any]]:
    assert isinstance(result.content, list), result.content
    return result.content


def held(block: dict[str, Any]) -> bytes:
    return b64decode(block["source"]["data"])


# -- pictures


@pytest.mark.parametrize("form", ["PNG", "JPEG", "GIF", "WEBP"])
def test_a_picture_within_the_limits_goes_as_it_is(workshop: Workshop, form: str) -> None:
    data = picture(form, (30, 20))
    path = workshop.write("picture.of.some.kind", data)
    result = workshop.use(Read(), file_path=str(path))
    (block,) = blocks(result)
    assert held(block) == data
    assert block["source"]["media_type"] == f"image/{form.lower()}"
    assert result.display == "Image, 30 x 20"
    assert result.tool_use_result == {
        "type": "image",
        "file": {
            "filePath": str(path),
            "type": f"image/{form.lower()}",
            "originalSize": len(data),
            "dimensions": {
                "originalWidth": 30,
                "originalHeight": 20,
                "displayWidth": 30,
                "displayHeight": 20,
            },
        },
    }


def test_one_with_too_many_pixels_is_made_smaller_and_says_so(workshop: Workshop) -> None:
    workshop.write("wide.png", png(6000, 300))
    shown, note = blocks(workshop.use(Read(), file_path="wide.png"))
    assert read_picture_size(held(shown)) == (2000, 100)
    assert note["text"] == "(Scaled from 6000 x 300 to 2000 x 100 pixels.)"


def test_one_with_too_many_bytes_is_made_smaller(
    workshop: Workshop, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(media, "PICTURE_MAX_BYTES", 20_000)
    workshop.write("noise.png", png(300, 300, noise=True))
    block = blocks(workshop.use(Read(), file_path="noise.png"))[0]
    assert len(held(block)) <= 20_000
    assert detect_picture_type(held(block)) == block["source"]["media_type"]


@pytest.mark.parametrize(
    ("form", "mode"),
    [
        ("BMP", "RGB"),
        ("TIFF", "RGB"),
        ("GIF", "P"),
        ("PNG", "RGBA"),
        ("PNG", "LA"),
        ("JPEG", "CMYK"),
    ],
)
def test_other_forms_and_colors_become_what_the_service_takes(
    workshop: Workshop, form: str, mode: str
) -> None:
    workshop.write("odd", picture(form, (2500, 40), mode))
    block = blocks(workshop.use(Read(), file_path="odd"))[0]
    assert block["source"]["media_type"] in ("image/png", "image/jpeg")
    assert read_picture_size(held(block)) == (2000, 32)


def test_a_photograph_lying_on_its_side_is_put_upright(workshop: Workshop) -> None:
    from PIL import Image

    turned = Image.Exif()
    turned[0x0112] = 6
    workshop.write("photo.jpg", picture("JPEG", (3000, 1500), exif=turned))
    block = blocks(workshop.use(Read(), file_path="photo.jpg"))[0]
    assert read_picture_size(held(block)) == (1000, 2000)


def test_a_broken_picture_and_too_large_a_file_are_said(
    workshop: Workshop, monkeypatch: pytest.MonkeyPatch
) -> None:
    workshop.write("broken.png", b"\x89PNG\r\n\x1a\n" + b"x" * 100)
    said = workshop.use(Read(), file_path="broken.png")
    assert said.is_error
    assert "can't read the file: " in str(said.content)
    workshop.write("cut.png", png(3000, 50)[:-40])
    assert workshop.use(Read(), file_path="cut.png").is_error
    monkeypatch.setattr(read, "FILE_MAX_BYTES", 50)
    assert "108 bytes; the limit is" in str(workshop.use(Read(), file_path="broken.png").content)


def test_what_has_no_lines_or_pages_says_so(workshop: Workshop) -> None:
    workshop.write("a.png", png(2, 2))
    workshop.write("a.txt", "x\n")
    workshop.write("a.pdf", pdf(1))
    assert "Read all of it" in str(workshop.use(Read(), file_path="a.png", offset=2).content)
    assert "Read pages" in str(workshop.use(Read(), file_path="a.pdf", limit=2).content)
    assert "is not a PDF file" in str(workshop.use(Read(), file_path="a.txt", pages="1").content)


def test_without_pillow_a_large_picture_says_what_to_install(
    workshop: Workshop, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(media, "find_spec", lambda _: None)
    workshop.write("small.png", png(20, 20))
    workshop.write("wide.png", png(2001, 1))
    assert not workshop.use(Read(), file_path="small.png").is_error
    said = str(workshop.use(Read(), file_path="wide.png").content)
    assert "[docs]" in said


def test_a_decoder_that_hangs_is_ended(workshop: Workshop, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(media, "WORK_TIMEOUT_S", 0.2)
    monkeypatch.setattr(media, "command", lambda *_: ["sleep", "600"])
    workshop.write("wide.png", png(2001, 1))
    said = workshop.use(Read(), file_path="wide.png")
    assert "timed out after 0.2 s" in str(said.content)
    assert workshop.session.shell.launcher.living == 0


def test_a_picture_of_any_tool_is_made_to_fit(workshop: Workshop) -> None:
    def block(data: bytes, media_type: str = "image/png") -> dict[str, Any]:
        return {"type": "image", "source": media.source(media_type, data)}

    small, wide = block(png(9, 9)), block(png(4000, 8))
    misnamed = block(png(9, 9), "image/jpeg")
    broken = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "?"}}
    linked = {"type": "image", "source": {"type": "url", "url": "https://example.org/a.png"}}
    words = {"type": "text", "text": "words"}

    async def fit() -> Any:
        content = [small, wide, misnamed, broken, linked, words]
        return await media.fit_pictures(workshop.session, content)

    found = workshop.use_later(fit)
    assert found[0] is small
    assert read_picture_size(held(found[1])) == (2000, 4)
    assert found[2]["source"]["media_type"] == "image/png"
    assert found[3]["text"].startswith("(An image can't be shown: ")
    assert found[4:] == [linked, words]


# -- documents


def test_a_document_goes_whole_or_by_its_pages(workshop: Workshop) -> None:
    path = workshop.write("paper.pdf", pdf(45))
    small = workshop.write("small.pdf", pdf(3))
    whole = workshop.use(Read(), file_path=str(small))
    document, note = blocks(whole)
    assert held(document) == small.read_bytes()
    assert document["title"] == "small.pdf"
    assert note["text"] == "(Pages 1-3 of 3.)"
    document, note = blocks(workshop.use(Read(), file_path=str(path)))
    assert pages_of(held(document)) == 20
    assert note["text"] == "(Pages 1-20 of 45. Continue with pages=21-.)"
    result = workshop.use(Read(), file_path=str(path), pages="41-60")
    document, note = blocks(result)
    assert pages_of(held(document)) == 5
    assert note["text"] == "(Pages 41-45 of 45.)"
    assert result.tool_use_result["file"]["firstPage"] == 41
    assert pages_of(held(blocks(workshop.use(Read(), file_path=str(path), pages="7"))[0])) == 1
    assert pages_of(held(blocks(workshop.use(Read(), file_path=str(path), pages="7-"))[0])) == 20


@pytest.mark.parametrize(
    ("pages", "says"),
    [
        ("46", "the file has 45 pages; page 46 does not exist"),
        ("0", "pages must be"),
        ("5-3", "pages must be"),
        ("all", "got 'all'"),
    ],
)
def test_pages_that_are_none_are_said(workshop: Workshop, pages: str, says: str) -> None:
    workshop.write("paper.pdf", pdf(45))
    assert says in str(workshop.use(Read(), file_path="paper.pdf", pages=pages).content)


def test_a_model_without_eyes_for_documents_gets_the_text(workshop: Workshop) -> None:
    workshop.write("paper.pdf", pdf(3))
    workshop.surroundings = Surroundings(takes_pdfs=False)
    result = workshop.use(Read(), file_path="paper.pdf", pages="2-3")
    assert result.content == "Page 2\nThis is page 2\n\nPage 3\nThis is page 3\n\n(Pages 2-3 of 3.)"


def test_a_model_that_a_user_says_reads_no_documents_gets_the_text(tmp_path: Path) -> None:
    config, work = tmp_path / "config", tmp_path / "work"
    config.mkdir()
    work.mkdir()
    (config / "settings.json").write_text('{"models": {"own-1": {"pdfs": false}}}', "utf-8")
    (work / "paper.pdf").write_bytes(pdf(2))
    call = {"tool": "Read", "input": {"file_path": "paper.pdf", "pages": "1"}}
    plan = {"scenario": 1, "answers": [{"content": [call]}, {"text": "Read."}]}
    with serving(plan, strict=True) as server:
        done = clew(tmp_path, server.url, "-p", "go", "--model", "own-1")
    assert done.stdout == "Read.\n", done.stderr
    (result,) = server.requests[-1].body["messages"][-1]["content"]
    assert "This is page 1" in result["content"]


def test_broken_locked_and_too_large_documents_are_said(
    workshop: Workshop, monkeypatch: pytest.MonkeyPatch
) -> None:
    workshop.write("broken.pdf", b"%PDF-1.7\nnothing")
    workshop.write("locked.pdf", pdf(2, password="secret"))
    workshop.write("a.pdf", pdf(2))
    assert "can't read the file" in str(workshop.use(Read(), file_path="broken.pdf").content)
    assert "requires a password" in str(workshop.use(Read(), file_path="locked.pdf").content)
    monkeypatch.setattr("clew.agent.tools.read_media.DOCUMENT_MAX_BYTES", 10)
    assert "Read fewer pages" in str(workshop.use(Read(), file_path="a.pdf").content)


def test_without_pypdf_the_whole_goes_and_pages_say_what_to_install(
    workshop: Workshop, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(media, "find_spec", lambda _: None)
    path = workshop.write("a.pdf", pdf(2))
    (document,) = blocks(workshop.use(Read(), file_path="a.pdf"))
    assert held(document) == path.read_bytes()
    said = str(workshop.use(Read(), file_path="a.pdf", pages="1").content)
    assert "[docs]" in said


# -- notebooks

PICTURE = {"image/png": "", "text/plain": ["<Figure>"]}
NOTEBOOK: dict[str, Any] = {
    "cells": [
        {"cell_type": "markdown", "id": "intro", "metadata": {}, "source": ["# Title\n", "words"]},
        {
            "cell_type": "code",
            "execution_count": 3,
            "id": "plot",
            "metadata": {"tags": ["x"]},
            "outputs": [
                {"output_type": "stream", "name": "stdout", "text": ["one\n", "two\n"]},
                {"output_type": "display_data", "data": {"text/plain": ["<Figure>"]}, "metadata": {}},
                {"output_type": "error", "ename": "E", "evalue": "v", "traceback": ["\x1b[31mE\x1b[0m: v"]},
            ],
            "source": "print('ä')\n",
        },
        {"cell_type": "raw", "id": "end", "metadata": {}, "source": []},
    ],
    "metadata": {"language_info": {"name": "julia"}, "zeta": 1, "alpha": 2},
    "nbformat": 4,
    "nbformat_minor": 5,
}  # fmt: skip


def written(workshop: Workshop, held: dict[str, Any], **how: Any) -> Path:
    text = json.dumps(held, ensure_ascii=False, **({"indent": 1} | how)) + "\n"
    return workshop.write("n.ipynb", text)


def test_a_notebook_is_its_cells_and_their_outputs(workshop: Workshop) -> None:
    path = written(workshop, NOTEBOOK)
    result = workshop.use(Read(), file_path="n.ipynb")
    (block,) = blocks(result)
    assert block["text"] == (
        "<cell number=1 id=intro type=markdown>\n# Title\nwords\n</cell>\n"
        "<cell number=2 id=plot type=code language=julia>\nprint('ä')\n</cell>\n"
        "<output>\none\ntwo\n</output>\n<output>\n<Figure>\n</output>\n<output>\nE: v\n</output>\n"
        "<cell number=3 id=end type=raw>\n\n</cell>"
    )
    assert result.tool_use_result["type"] == "notebook"
    assert result.tool_use_result["file"]["filePath"] == str(path)
    assert result.tool_use_result["file"]["cells"][0]["cell_id"] == "intro"
    part = workshop.use(Read(), file_path="n.ipynb", offset=2, limit=1)
    assert blocks(part)[-1]["text"] == "(Cells 2-2 of 3. Continue with offset=3.)"
    beyond = workshop.use(Read(), file_path="n.ipynb", offset=4)
    assert "has 3 cells; cell 4 does not exist" in str(beyond.content)


def test_pictures_of_a_notebook_are_seen_where_they_were_drawn(workshop: Workshop) -> None:
    from base64 import b64encode

    data = b64encode(png(4, 4)).decode()
    output = {"output_type": "display_data", "data": {"image/png": data}, "metadata": {}}
    broken = {"output_type": "display_data", "data": {"image/png": "!"}, "metadata": {}}
    cell = {"cell_type": "code", "source": "plot()", "outputs": [output, broken], "metadata": {}}
    written(workshop, NOTEBOOK | {"cells": [cell, NOTEBOOK["cells"][0]]})
    content = blocks(workshop.use(Read(), file_path="n.ipynb"))
    assert [block["type"] for block in content] == ["text", "image", "text"]
    assert "id=cell-0" in content[0]["text"]
    assert "<output>\n(an image)\n</output>" in content[0]["text"]
    assert content[2]["text"].startswith(
        "(The image above belongs to cell cell-0.)\n<cell number=2"
    )
    written(workshop, NOTEBOOK | {"cells": [cell] * (notebook.MOST_PICTURES + 3)})
    content = blocks(workshop.use(Read(), file_path="n.ipynb"))
    assert sum(block["type"] == "image" for block in content) == notebook.MOST_PICTURES


def test_long_notebooks_and_outputs_are_bounded(workshop: Workshop) -> None:
    long = {"output_type": "stream", "text": "y" * (notebook.OUTPUT_MAX_CHARS + 5)}
    cell = {"cell_type": "code", "source": "x" * 30_000, "outputs": [long], "metadata": {}}
    written(workshop, NOTEBOOK | {"cells": [cell] * 10})
    content = blocks(workshop.use(Read(), file_path="n.ipynb"))
    assert "… [5 more characters]" in content[0]["text"]
    assert content[-1]["text"] == "(Cells 1-2 of 10. Continue with offset=3.)"
    written(workshop, NOTEBOOK | {"cells": []})
    assert "has no cells" in blocks(workshop.use(Read(), file_path="n.ipynb"))[-1]["text"]


@pytest.mark.parametrize(
    "text", ["", "{", "[]", '{"cells": 1}', '{"cells": [1]}', '{"cells": [], "metadata": 1}', "[" * 9999]
)  # fmt: skip
def test_what_is_called_a_notebook_and_is_none_is_text(workshop: Workshop, text: str) -> None:
    workshop.write("n.ipynb", text)
    result = workshop.use(Read(), file_path="n.ipynb")
    assert not result.is_error
    assert isinstance(result.content, str)
    edit = workshop.use(NotebookEdit(), notebook_path="n.ipynb", cell_id="x", new_source="y")
    assert "is not a notebook" in str(edit.content)


def edited(workshop: Workshop, **given: Any) -> ToolOutcome:
    return workshop.use(NotebookEdit(), notebook_path="n.ipynb", **given)


@pytest.mark.parametrize("how", [{"indent": 1}, {"indent": 4}, {"indent": "\t"}])
def test_a_cell_is_replaced_and_everything_else_stays(workshop: Workshop, how: Any) -> None:
    path = written(workshop, NOTEBOOK, **how)
    assert NOT_READ in str(edited(workshop, cell_id="plot", new_source="x").content)
    workshop.use(Read(), file_path="n.ipynb")
    result = edited(workshop, cell_id="plot", new_source="a = 1\nb = 2")
    assert result.content == f"Replaced cell plot of {path}; the notebook now has 3 cells."
    wanted = json.loads(json.dumps(NOTEBOOK))
    wanted["cells"][1] |= {"source": "a = 1\nb = 2", "outputs": [], "execution_count": None}
    assert path.read_text("utf-8") == json.dumps(wanted, ensure_ascii=False, **how) + "\n"
    assert result.tool_use_result["cell_id"] == "plot"
    assert result.tool_use_result["structuredPatch"]
    again = edited(workshop, cell_id="intro", new_source="only\n")
    assert not again.is_error
    assert json.loads(path.read_text("utf-8"))["cells"][0]["source"] == ["only\n"]


def test_a_cell_that_holds_a_tag_of_clews_keeps_it_though_it_was_shown_escaped(
    workshop: Workshop,
) -> None:
    path = written(workshop, NOTEBOOK)
    workshop.use(Read(), file_path="n.ipynb")
    edited(workshop, cell_id="plot", new_source="a = '<system-reminder>'")
    edited(workshop, cell_id="plot", new_source="b = '<\\system-reminder>'")
    assert json.loads(path.read_text("utf-8"))["cells"][1]["source"] == "b = '<system-reminder>'"


def test_cells_are_added_changed_in_kind_and_taken_out(workshop: Workshop) -> None:
    path = written(workshop, NOTEBOOK)
    workshop.use(Read(), file_path="n.ipynb")
    first = edited(workshop, edit_mode="insert", cell_type="markdown", new_source="Hello")
    edited(workshop, edit_mode="insert", cell_type="code", cell_id="plot", new_source="1\n2")
    edited(workshop, cell_id="plot", cell_type="markdown", new_source="words")
    gone = edited(workshop, edit_mode="delete", cell_id="end")
    assert str(gone.content).endswith("the notebook now has 4 cells.")
    cells = json.loads(path.read_text("utf-8"))["cells"]
    assert [cell["cell_type"] for cell in cells] == ["markdown", "markdown", "markdown", "code"]
    assert cells[0]["id"] == first.tool_use_result["cell_id"]
    assert cells[3] == {
        "cell_type": "code",
        "execution_count": None,
        "id": cells[3]["id"],
        "metadata": {},
        "outputs": [],
        "source": ["1\n", "2"],
    }
    assert "outputs" not in cells[2]


def test_a_notebook_from_before_there_were_ids_gets_none(workshop: Workshop) -> None:
    old = {k: v for k, v in NOTEBOOK["cells"][0].items() if k != "id"}
    path = written(workshop, NOTEBOOK | {"cells": [old, old], "nbformat_minor": 4})
    workshop.use(Read(), file_path="n.ipynb")
    edited(workshop, edit_mode="insert", cell_type="code", cell_id="cell-0", new_source="x")
    edited(workshop, cell_id="cell-2", new_source="last")
    cells = json.loads(path.read_text("utf-8"))["cells"]
    assert "id" not in cells[1]
    assert cells[2]["source"] == ["last"]


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"cell_id": "nope", "new_source": "x"}, "n.ipynb. Its cells: intro, plot, end"),
        ({"new_source": "x"}, "replace requires cell_id"),
        ({"edit_mode": "delete"}, "delete requires cell_id"),
        ({"edit_mode": "insert", "new_source": "x"}, "insert requires cell_type"),
    ],
)
def test_an_edit_that_does_not_fit_changes_nothing(
    workshop: Workshop, given: dict[str, Any], says: str
) -> None:
    path = written(workshop, NOTEBOOK)
    before = path.read_bytes()
    workshop.use(Read(), file_path="n.ipynb")
    assert says in str(edited(workshop, **given).content)
    assert path.read_bytes() == before


def test_a_picture_that_was_seen_may_be_written_over(workshop: Workshop) -> None:
    workshop.write("a.svg", "<svg/>")
    path = workshop.write("a.png", png(2, 2))
    workshop.use(Read(), file_path="a.png")
    assert not workshop.use(Write(), file_path="a.png", content="text now").is_error
    assert path.read_text("utf-8") == "text now"


# -- folders


def test_a_folder_is_listed_folders_first(workshop: Workshop) -> None:
    for name in ("b.txt", "a.txt", ".hidden", "sub/x", "x.pyc"):
        workshop.write(name, "12345")
    (workshop.folder / "link").symlink_to("a.txt")
    (workshop.folder / "loop").symlink_to("loop")
    listing = (
        "sub/\n.hidden (5 bytes)\na.txt (5 bytes)\nb.txt (5 bytes)\nlink -> a.txt\nloop -> loop\n"
        "x.pyc (5 bytes)"
    )
    result = workshop.use(Read(), file_path=".")
    assert result.content == f"{workshop.folder} has 7 names:\n{listing}"
    assert workshop.use(LS(), path=str(workshop.folder)).content == result.content
    fewer = workshop.use(LS(), path=".", ignore=["*.pyc", "sub", ".h*"])
    assert fewer.tool_use_result["names"] == ["a.txt", "b.txt", "link", "loop"]
    assert "is empty" in str(workshop.use(LS(), path="sub", ignore=["*"]).content)


def test_a_large_folder_is_bounded_and_what_is_denied_is_not_named(
    workshop: Workshop, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("clew.agent.tools.search_tools.MOST_NAMES", 3)
    for number in range(5):
        workshop.write(f"f{number}", "")
    workshop.session.files.may_read = lambda _: lambda name: name != "f0"
    result = workshop.use(LS(), path=".")
    assert result.tool_use_result["names"] == ["f1", "f2", "f3"]
    assert "(The first 3 of 4.)" in str(result.content)


@pytest.mark.parametrize(("path", "says"), [("none", "Folder not found"), ("f", "is a file")])
def test_what_is_no_folder_is_said(workshop: Workshop, path: str, says: str) -> None:
    workshop.write("f", "")
    assert says in str(workshop.use(LS(), path=path).content)


# -- through the program


def test_pictures_and_documents_travel_as_blocks_and_stay_in_the_log(tmp_path: Path) -> None:
    work = tmp_path / "work"
    work.mkdir()
    (work / "a.png").write_bytes(png(3000, 30))
    (work / "a.pdf").write_bytes(pdf(25))
    plan = scenario(
        {"content": [{"tool": "Read", "input": {"file_path": "a.png"}}]},
        {"content": [{"tool": "Read", "input": {"file_path": "a.pdf", "pages": "2-3"}}]},
        {"text": "Seen."},
    )
    with serving(plan, strict=True) as server:
        done = clew(tmp_path, server.url, "-p", "look")
        messages = server.requests[-1].body["messages"]
    assert (done.stdout, done.stderr) == ("Seen.\n", "")
    results = [m["content"][0] for m in messages if m["content"][0]["type"] == "tool_result"]
    assert [[b["type"] for b in r["content"]] for r in results] == [
        ["image", "text"],
        ["document", "text"],
    ]
    assert read_picture_size(held(results[0]["content"][0])) == (2000, 20)
    assert pages_of(held(results[1]["content"][0])) == 2
    (log,) = transcripts(tmp_path)
    recorded = [e for e in entries(log) if "toolUseResult" in e]
    assert recorded[0]["message"]["content"][0]["content"] == results[0]["content"]
    assert recorded[0]["toolUseResult"]["file"]["dimensions"]["displayWidth"] == 2000
    again = scenario({"text": "Still."})
    with serving(again, strict=True) as server:
        clew(tmp_path, server.url, "-p", "more", "--resume", log.stem)
        resumed = server.requests[-1].body["messages"]
    assert resumed[: len(messages)][:-1] == messages[:-1]


def test_a_file_read_twice_is_sent_once(tmp_path: Path) -> None:
    work = tmp_path / "work"
    work.mkdir()
    (work / "a.txt").write_text("content of a\n", "utf-8")
    look = {"content": [{"tool": "Read", "input": {"file_path": "a.txt"}}]}
    with serving(scenario(look, look, {"text": "Twice."}), strict=True) as server:
        clew(tmp_path, server.url, "-p", "look")
        body = json.dumps(server.requests[-1].body["messages"])
    assert body.count("content of a") == 1
    assert "is unchanged since you read these lines" in body
