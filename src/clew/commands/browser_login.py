"""Log in to a model service in a browser: the service grants a new API key (OAuth with PKCE).

OpenRouter documents this login for any program on the user's machine, without registration.
"""

import asyncio
import json
import secrets
from collections.abc import Callable

from clew.core.catalog.services import ServiceRow
from clew.parts.mcp import oauth_words as words
from clew.parts.mcp.oauth import PERSON_S, LoginError, Loopback, ask
from clew.system.config.environment import Environment
from clew.system.transport.http import HttpTransport
from clew.system.transport.network import read_network


async def obtain_key(
    row: ServiceRow,
    environment: Environment,
    show: Callable[[str], object],
    *,
    person_s: float = PERSON_S,
) -> str:
    """Log in through the browser and return a new API key. Raise `LoginError` on failure.

    `show` opens a page for the user.
    """
    exchange_url = f"{row.url.rstrip('/')}/auth/keys"
    if not (words.is_safe(row.login_url) and words.is_safe(exchange_url)):
        raise LoginError(
            f"{row.title}: login URLs must use https, unless the server is on this machine"
        )
    verifier = secrets.token_urlsafe(48)
    async with Loopback(secrets.token_urlsafe(24), in_path=True) as back:
        show(
            words.with_query(
                row.login_url,
                {
                    # The only host that OpenRouter's documentation names.
                    "callback_url": back.redirect_uri.replace("127.0.0.1", "localhost"),
                    "code_challenge": words.proof_of(verifier),
                    "code_challenge_method": "S256",
                },
            )
        )
        parameters = (await back.answer(person_s)).parameters
    if "error" in parameters:
        raise LoginError(f"the login was denied: {words.describe_refusal(dict(parameters))}")
    if not parameters.get("code"):
        raise LoginError("the response contains no authorization code")
    proof = {
        "code": parameters["code"],
        "code_verifier": verifier,
        "code_challenge_method": "S256",
    }
    transport = HttpTransport(read_network(environment))
    try:
        status, answer = await ask(
            transport,
            "POST",
            exchange_url,
            body=json.dumps(proof).encode(),
            content_type="application/json",
        )
    finally:
        await transport.aclose()
    key = answer.get("key") if isinstance(answer, dict) else None
    if status >= 400 or not isinstance(key, str) or not key:
        raise LoginError(
            f"{words.parse_origin(exchange_url)} did not return an API key (HTTP {status})"
        )
    return key


def log_in(row: ServiceRow, environment: Environment, say: Callable[[str], object]) -> str:
    """Open the browser, wait for the user, and return the new key.

    Raise `LoginError` on failure.
    """
    from clew.parts.mcp.connect import open_browser

    def bring(url: str) -> None:
        say(f"Open this page to log in:\n{url}\n")
        open_browser(url)

    return asyncio.run(obtain_key(row, environment, bring))
