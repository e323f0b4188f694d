"""The page's files and the headers that confine them.

The page may load only these files, from this server: no inline code, no other sites, no embedding
in frames. Its scripts insert text into the document as text, never as markup.
"""

import gzip
import hashlib
import mimetypes
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
    # The browser revalidates each time, and receives a body only if the file has changed.
    "cache-control": "no-cache",
}
KINDS = {
    ".js": "text/javascript; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".html": "text/html; charset=utf-8",
    ".webmanifest": "application/manifest+json",
    ".svg": "image/svg+xml",
    ".png": "image/png",
}


@cache
def list_assets() -> dict[str, tuple[bytes, str]]:
    """Return the content and hash of each file, by name."""
    contents = {}
    for file in files("clew.serve.web").joinpath("static").iterdir():
        data = file.read_bytes()
        contents[file.name] = (data, hashlib.sha256(data).hexdigest()[:32])
    return contents


@cache
def pack(name: str) -> bytes:
    return gzip.compress(list_assets()[name][0], 9)


async def send_asset(request: Request) -> Response:
    """Send the page, or one of its files."""
    name = request.path_params.get("name", "index.html")
    if name not in list_assets():
        raise RefusedError(404, "not_found", f"file not found: {name!r}")
    data, digest = list_assets()[name]
    headers = HEADERS | {"etag": f'"{digest}"', "vary": "accept-encoding"}
    if name == "worker.js":
        headers["service-worker-allowed"] = "/"
    if request.headers.get("if-none-match") == headers["etag"]:
        return Response(status_code=304, headers=headers)
    if "gzip" in request.headers.get("accept-encoding", ""):
        data, headers["content-encoding"] = pack(name), "gzip"
    kind = KINDS.get("." + name.rpartition(".")[2]) or mimetypes.guess_type(name)[0]
    return Response(data, media_type=kind, headers=headers)
