"""Open a service from the table: find its endpoint, its key, and the provider of its wire.

Owns which key is sent where: a key from a row's variables, or saved under the row's name, is sent
only to the address of that row.
"""

from collections.abc import Mapping

from clew.core.catalog.services import ServiceRow, fill_in, is_placed
from clew.core.messages.errors import UserError
from clew.providers.anthropic import AnthropicProvider
from clew.providers.endpoint import Endpoint
from clew.system.config.keys import find_keyring, find_service_key
from clew.system.config.paths import Places

LOOPBACK = "127.0.0.1"


class RowKeys:
    """Finds services' keys in environment variables, the keyring and the file of `clew login`."""

    def __init__(self, environ: Mapping[str, str], places: Places) -> None:
        self._environ = environ
        self._places = places
        self._keyring = find_keyring()

    def find(self, row: ServiceRow) -> str | None:
        variables = row.key_variables
        # The name under which `clew login` without a service saves the key.
        name = "" if row.name == "anthropic" else row.name
        return find_service_key(self._environ, variables, name, self._places, self._keyring)

    def has(self, row: ServiceRow) -> bool:
        return self.find(row) is not None


def find_url(row: ServiceRow, environ: Mapping[str, str]) -> str:
    """Return a service's URL, from its own variable or its table row."""
    url = next((environ[name].strip() for name in row.url_variables if environ.get(name)), "")
    if not url:
        return row.url
    if row.is_local and "://" not in url:
        host, colon, port = url.rpartition(":")
        if not colon or not port.isdecimal():
            host, port = url, str(row.port)
        url = f"http://{LOOPBACK if host in ('', '0.0.0.0') else host}:{port}"
    return url.rstrip("/")


def make_row_endpoint(row: ServiceRow, environ: Mapping[str, str], key: str | None) -> Endpoint:
    """Return a service's endpoint; `hindrance` and `advice` describe what is missing."""
    try:
        values = fill_in(row, environ)
    except UserError as error:
        values, hindrance = {}, str(error)
    else:
        hindrance = ""

    def filled(text: str) -> str:
        for name, value in values.items():
            text = text.replace("{" + name + "}", value)
        return text

    return Endpoint(
        service=row.name,
        kind=row.kind,
        base_url=filled(find_url(row, environ)),
        api_key=key,
        headers=tuple((name, filled(value)) for name, value in row.headers.items()),
        betas_allowed=row.betas,
        dialect=row.wire,
        key_header=row.key_header,
        paths={kind: filled(path) for kind, path in row.paths.items()},
        frames=row.frames,
        is_platform=row.is_platform,
        quirks=row.quirks,
        advice=row.described_key if not row.is_local and not row.key_helper and not key else "",
        hindrance=hindrance,
    )


# Variables that select the credentials of a cloud.
CLOUDS: Mapping[str, tuple[str, ...]] = {
    "aws": ("AWS_ACCESS_KEY_ID", "AWS_PROFILE", "AWS_CONTAINER_CREDENTIALS_RELATIVE_URI"),
    "google": ("GOOGLE_APPLICATION_CREDENTIALS", "ANTHROPIC_VERTEX_PROJECT_ID"),
    "azure": (),
}


def is_usable(row: ServiceRow, environ: Mapping[str, str], keys: RowKeys) -> bool:
    """Return whether a service can be used: it has credentials, or needs none."""
    if row.is_local or row.key_helper or keys.has(row):
        return True
    in_use = any(environ.get(name) for name in CLOUDS.get(row.authentication, ()))
    return in_use and is_placed(row, environ)


def find_provider_class(endpoint: Endpoint) -> type[AnthropicProvider]:
    """Return the provider class for the endpoint's protocol."""
    if endpoint.speaks_messages and not endpoint.is_platform:
        return AnthropicProvider
    from clew.providers.wires import find_provider

    return find_provider(endpoint)
