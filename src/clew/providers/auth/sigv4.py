"""Sign requests for AWS (Signature Version 4).

The host, the date, the content type and the session's token are signed. The format is described in
https://docs.aws.amazon.com/IAM/latest/UserGuide/reference_sigv.html. Must never read the clock: the
time is an argument.
"""

import hmac
from hashlib import sha256
from urllib.parse import quote, urlsplit

from msgspec import Struct

ALGORITHM = "AWS4-HMAC-SHA256"


class AwsKeys(Struct, frozen=True, kw_only=True):
    """AWS credentials. `repr` does not show the secrets."""

    access_key: str
    secret_key: str
    token: str = ""
    # The expiry time in seconds since 1970; None if they do not expire.
    expires_at_s: float | None = None

    def __repr__(self) -> str:
        return f"AwsKeys(expires_at_s={self.expires_at_s!r})"


def sign(
    method: str,
    url: str,
    body: bytes,
    *,
    keys: AwsKeys,
    region: str,
    service: str,
    at: str,
    content_type: str = "application/json",
) -> dict[str, str]:
    """Return the headers that authenticate a request. `at` is a time such as 20260131T120000Z."""
    parts = urlsplit(url)
    headers = {"content-type": content_type, "host": parts.netloc, "x-amz-date": at}
    if keys.token:
        headers["x-amz-security-token"] = keys.token
    names = ";".join(sorted(headers))
    # The signature requires the path to be quoted again, even if it already is.
    request = "\n".join([
        method,
        quote(parts.path or "/", safe="/~"),
        _canonical_query(parts.query),
        *(f"{name}:{headers[name].strip()}" for name in sorted(headers)),
        "",
        names,
        sha256(body).hexdigest(),
    ])  # fmt: skip
    scope = f"{at[:8]}/{region}/{service}/aws4_request"
    text = "\n".join([ALGORITHM, at, scope, sha256(request.encode()).hexdigest()])
    key = f"AWS4{keys.secret_key}".encode()
    for part in (at[:8], region, service, "aws4_request"):
        key = hmac.digest(key, part.encode(), "sha256")
    signature = hmac.digest(key, text.encode(), "sha256").hex()
    credential = f"Credential={keys.access_key}/{scope}"
    headers_out = {
        "x-amz-date": at,
        "authorization": f"{ALGORITHM} {credential}, SignedHeaders={names}, Signature={signature}",
    }
    return headers_out | ({"x-amz-security-token": keys.token} if keys.token else {})


def _canonical_query(query: str) -> str:
    """Return the parts of a query, sorted. They are already quoted in the URL."""
    parts = (part.partition("=") for part in query.split("&") if part)
    return "&".join(f"{name}={value}" for name, value in sorted((n, v) for n, _, v in parts))
