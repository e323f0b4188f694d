"""The page's files and the headers that confine them.

The page may load only these files, from this server: no inline code, no other sites, no embedding
in frames. Its scripts insert text into the document as text, never as markup.
"""

import gzip
import hashlib
import mimetypes
import re
from functools import cache
from importlib.resources import files

from starlette.requests import Request
from starlette.responses import Response

from clew.serve.log import RefusedError

POLICY = "; ".join(
    (
        "default-src 'none'",
        "script-src 'self'",
        "style-src 'self'",
        "img-src 'self' data: blob:",
        "connect-src 'self'",
        "manifest-src 'self'",
        "worker-src 'self'",
        "base-uri 'none'",
        "form-action 'none'",
        "frame-ancestors 'none'",
        "require-trusted-types-for 'script'",
        "trusted-types clew",
    )
)
HEADERS = {
    "content-security-policy": POLICY,
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "permissions-policy": "camera=(), microphone=(), geolocation=()",
}
# The browser revalidates each time, and receives a body only if the file has changed.
REVALIDATED = "no-cache"
# The path contains the hash of the content, so the browser never asks again.
KEPT = "public, max-age=31536000, immutable"
# The names of scripts and styles in the page, which are sent under a path with a hash.
REFERENCE = re.compile(rb'(?<="/web/)(?=[\w-]+\.(?:js|css)")')
KINDS = {
    ".js": "text/javascript; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".html": "text/html; charset=utf-8",
    ".webmanifest": "application/manifest+json",
    ".svg": "image/svg+xml",
    ".png": "image/png",
}


BLOCK_COMMENT = re.compile(rb"^[\t ]*/\*.*?\*/[\t ]*$", re.M | re.S)
SPACE = re.compile(rb"^[\t ]+(?:// .*)?|^// .*", re.M)


@cache
def read_files() -> dict[str, bytes]:
    folder = files("clew.serve.web").joinpath("static")
    contents = {file.name: file.read_bytes() for file in folder.iterdir()}
    return {
        name: strip(data) if name.endswith((".js", ".css")) else data
        for name, data in contents.items()
    }


def strip(source: bytes) -> bytes:
    """Return a script or style without indentation and without comments on lines of their own.

    Lines keep their numbers. Nothing in the sources spans lines, except comments and code.
    """
    source = BLOCK_COMMENT.sub(lambda found: b"\n" * found[0].count(b"\n"), source)
    return SPACE.sub(b"", source)


@cache
def name_folder() -> str:
    """Return the folder in the paths of scripts and styles.

    Scripts import each other by relative paths, so one hash covers all files.
    """
    contents = read_files()
    return hash_content(b"".join(contents[name] for name in sorted(contents)))[:16]


@cache
def list_assets() -> dict[str, tuple[bytes, str]]:
    """Return the content and hash of each file, by name."""
    page = REFERENCE.sub(f"{name_folder()}/".encode(), read_files()["index.html"])
    contents = read_files() | {"index.html": page}
    return {name: (data, hash_content(data)) for name, data in contents.items()}


def hash_content(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()[:32]


@cache
def pack(name: str) -> bytes:
    return gzip.compress(list_assets()[name][0], 9)


async def send_asset(request: Request) -> Response:
    """Send the page, or one of its files."""
    name = request.path_params.get("name", "index.html")
    if name not in list_assets():
        raise RefusedError(404, "not_found", f"file not found: {name!r}")
    data, digest = list_assets()[name]
    is_current = request.path_params.get("folder") == name_folder()
    headers = HEADERS | {
        "cache-control": KEPT if is_current else REVALIDATED,
        "etag": f'"{digest}"',
        "vary": "accept-encoding",
    }
    if name == "worker.js":
        headers["service-worker-allowed"] = "/"
    if request.headers.get("if-none-match") == headers["etag"]:
        return Response(status_code=304, headers=headers)
    if "gzip" in request.headers.get("accept-encoding", ""):
        data, headers["content-encoding"] = pack(name), "gzip"
    kind = KINDS.get("." + name.rpartition(".")[2]) or mimetypes.guess_type(name)[0]
    return Response(data, media_type=kind, headers=headers)
