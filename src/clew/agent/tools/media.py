"""Images and documents for the model, within the limits of the service.

Contains the limits and starts the program that does the work (`media_program`). An image within the
limits needs no library and is sent unchanged.
"""

import marshal
import sys
from base64 import b64encode
from binascii import a2b_base64
from importlib.util import find_spec
from pathlib import Path

from msgspec import Struct

from clew.agent.tools.base import ToolError, ToolSession
from clew.core.json_object import Json
from clew.core.messages.text import format_count
from clew.core.normalize.shapes import detect_picture_type, read_picture_size
from clew.system.installation import describe_extra
from clew.system.process.output import ProcessOutput
from clew.system.process.run import hold_data, run

# The service scales larger images down, and rejects them in a request with many images.
PICTURE_MAX_PX = 2000
# The smallest limit of all services, Bedrock's. Base64 adds a third.
PICTURE_MAX_BYTES = 3_750_000
# Two of them and the conversation fit into one request.
DOCUMENT_MAX_BYTES = 12 << 20
FILE_MAX_BYTES = 64 << 20
WORK_TIMEOUT_S = 30.0


class Picture(Struct, frozen=True, kw_only=True):
    """An image that the service accepts, and its original size."""

    data: bytes
    media_type: str
    size: tuple[int, int]
    original_size: tuple[int, int]

    @property
    def block(self) -> Json:
        return {"type": "image", "source": source(self.media_type, self.data)}

    @property
    def is_smaller(self) -> bool:
        return self.size != self.original_size


def source(media_type: str, data: bytes) -> Json:
    return {"type": "base64", "media_type": media_type, "data": b64encode(data).decode("ascii")}


def make_document(data: bytes, title: str) -> Json:
    return {"type": "document", "source": source("application/pdf", data), "title": title}


async def fit_picture(session: ToolSession, data: bytes) -> Picture:
    """Return the image in a form that the service accepts, scaled down if needed.

    Raise ToolError if that is impossible.
    """
    size, media_type = read_picture_size(data), detect_picture_type(data)
    if media_type and min(size) and max(size) <= PICTURE_MAX_PX and len(data) <= PICTURE_MAX_BYTES:
        return Picture(data=data, media_type=media_type, size=size, original_size=size)
    if find_spec("PIL") is None:
        what = "is too large" if media_type and min(size) else "has an unsupported format"
        raise ToolError(
            f"the image {what}, and converting it requires Pillow; {describe_extra('docs')}"
        )
    job = {"kind": "picture", "max_px": PICTURE_MAX_PX, "max_bytes": PICTURE_MAX_BYTES}
    info, picture = await run_media_program(session, job, data, "PIL")
    return Picture(
        data=picture,
        media_type=info["media_type"],
        size=(info["shown_width"], info["shown_height"]),
        original_size=(info["width"], info["height"]),
    )


async def fit_pictures(session: ToolSession, content: str | list[Json]) -> str | list[Json]:
    """Fit every image in a tool's content; replace an image that can't be fitted with a note."""
    if isinstance(content, str):
        return content
    return [
        await fit_block(session, block) if block.get("type") == "image" else block
        for block in content
    ]


async def fit_block(session: ToolSession, block: Json) -> Json:
    source = block.get("source")
    if not isinstance(source, dict) or source.get("type") != "base64":
        return block
    try:
        data = a2b_base64(source.get("data", ""))
        picture = await fit_picture(session, data)
    except (ToolError, ValueError, TypeError) as error:
        return {"type": "text", "text": f"(An image can't be shown: {error}.)"}
    if picture.data is data and picture.media_type == source.get("media_type"):
        return block
    return picture.block


class Pages(Struct, frozen=True, kw_only=True):
    """Pages of a PDF file.

    `data` is a PDF file with only these pages, or the text of the pages, separated by NUL.
    """

    data: bytes
    first: int
    last: int
    total: int


async def extract_pages(
    session: ToolSession, data: bytes, first: int, last: int, *, as_text: bool
) -> Pages:
    """Extract pages from a PDF file. Raise ToolError if that is impossible.

    If all pages are requested, the result contains the original file.
    """
    if find_spec("pypdf") is None:
        raise ToolError(f"reading pages of a PDF file requires pypdf; {describe_extra('docs')}")
    job = {"kind": "pages", "first": first, "last": last, "as_text": as_text}
    info, document = await run_media_program(session, job, data, "pypdf")
    if info["first"] > info["total"]:
        pages = format_count(info["total"], "page")
        raise ToolError(f"the file has {pages}; page {first} does not exist")
    return Pages(
        data=document if document or as_text else data,
        first=info["first"],
        last=info["last"],
        total=info["total"],
    )


async def run_media_program(
    session: ToolSession, job: Json, data: bytes, library: str
) -> tuple[Json, bytes]:
    """Run the media program on a file and return its answer. Raise ToolError if it fails."""
    out, err = ProcessOutput(keep_bytes=2 * FILE_MAX_BYTES), ProcessOutput(keep_bytes=20_000)
    with hold_data(data) as source:
        finished = await run(
            session.shell.launcher,
            command(job, library),
            cwd="/",
            env=session.shell.environment,
            stdout=out,
            stderr=err,
            descriptors={0: source},
            timeout_s=WORK_TIMEOUT_S,
        )
    if finished.timed_out:
        raise ToolError(f"timed out after {WORK_TIMEOUT_S:g} s")
    if finished.exit.code or out.size < 4:
        # The last line of a traceback has the exception and its message.
        last = (bytes(err.head) + err.tail).decode("utf-8", "replace").strip().rpartition("\n")[2]
        message = last.partition(": ")[2] or last
        raise ToolError(
            f"can't read the file: {message.rstrip('.') or 'the program that reads it exited unexpectedly'}"
        )
    reply = bytes(out.head)
    begin = 4 + int.from_bytes(reply[:4], "little")
    return marshal.loads(reply[4:begin]), reply[begin:]


def command(job: Json, library: str) -> list[str]:
    spec = find_spec(library)
    assert spec is not None
    assert spec.origin is not None
    # A bare interpreter finds neither clew nor the library without these.
    places = [str(Path(__file__).parents[3]), str(Path(spec.origin).parents[1])]
    program = (
        f"import sys; sys.path += {places!r}; "
        "from clew.agent.tools.media_program import main; sys.exit(main(sys.argv[1]))"
    )
    return [sys.executable, "-I", "-S", "-c", program, marshal.dumps(job).hex()]
