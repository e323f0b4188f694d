"""What a request says on the wire, whichever version of HTTP carries it.

Owns the headers that are the transport's own, and the words for a request that cannot be sent. Must
never put a header's value into those.
"""

from clew.transport.proxy import basic
from clew.transport.seam import HttpRequest, TransportError
from clew.transport.url import BadUrlError, Url, split_url

NOT_IN_NAMES = '()<>@,;:"/[]?={}\\\x7f'


def where(request: HttpRequest) -> Url:
    try:
        url = split_url(request.url)
    except BadUrlError as error:
        message = f"the base URL cannot be used: {error}"
        raise TransportError("configuration", message) from error
    if url.scheme not in ("http", "https"):
        raise TransportError("configuration", f"{url.scheme}:// is not http:// or https://")
    return url


def headers_for(request: HttpRequest, url: Url) -> list[tuple[bytes, bytes]]:
    headers = [("Host", url.authority), ("Accept-Encoding", "identity"), *request.headers]
    headers.append(("Content-Length", str(len(request.body))))
    own = {name.lower() for name, _ in request.headers}
    if url.credentials is not None and "authorization" not in own:
        headers.append(("Authorization", basic(url.credentials) or ""))
    try:
        return [(name.encode("ascii"), value.encode("utf-8")) for name, value in headers]
    except UnicodeEncodeError as error:
        raise unsendable(request) from error


def unsendable(request: HttpRequest) -> TransportError:
    why = fault_of_headers(request) or "one of them is malformed"
    return TransportError("configuration", f"the request's headers cannot be sent ({why})")


def fault_of_headers(request: HttpRequest) -> str | None:
    """Which of the headers HTTP cannot carry, and why."""
    for name, value in request.headers:
        if not name or not name.isascii() or any(c <= " " or c in NOT_IN_NAMES for c in name):
            return f"{name!r} is no header name"
        if value != value.strip() or any((c < " " and c != "\t") or c == "\x7f" for c in value):
            return f"the value of {name} holds a line break, a control character or outer spaces"
    return None
