"""`clew auth`: report whether credentials exist, for programs that check before a session.

The fields of the JSON output, such as `loggedIn`, are those that such programs read from the output
of `claude auth status`. The command runs no program and sends no request.
"""

import json
import os
import sys
from collections.abc import Mapping
from pathlib import Path

from clew.commands import login
from clew.core.catalog.services import find_keyed_row, read_services
from clew.core.json_object import Json
from clew.permissions.session_rules import CurrentRules, load_current_rules
from clew.providers.endpoint import read_endpoint
from clew.providers.opening import RowKeys
from clew.system.command_groups import Group
from clew.system.config.environment import Environment, freeze
from clew.system.config.keys import ACCOUNT, SERVICE, ask_keyring, find_keyring, read_login
from clew.system.config.settings import read_object, read_text

CLOUDS = ("bedrock", "vertex", "foundry")


def main(argv: list[str]) -> int:
    if argv[:1] == ["login"]:
        return login.main(argv[1:])
    if argv[:1] == ["logout"]:
        return login.log_out(argv[1:])
    parser = Group(prog="clew auth", description="Show where credentials come from; log in or out.")
    parser.add_argument("command", choices=("status", "login", "logout"))
    form = parser.add_mutually_exclusive_group()
    form.add_argument("--json", action="store_true", help="Print JSON (default)")
    form.add_argument("--text", action="store_true", help="Print one line")
    options = parser.parse_args(argv)
    status = read_status(os.environ, Path.cwd())
    text = status.get("apiKeySource", "none")
    sys.stdout.write(f"{f'API key: {text}' if options.text else json.dumps(status, indent=2)}\n")
    return 0 if status["loggedIn"] else 1


def read_status(environ: Mapping[str, str], cwd: Path) -> Json:
    """Return where a session in this folder would get its credentials, without their values."""
    current = load_current_rules(environ, cwd)
    environment, home = freeze(current.environ), current.places.config_home
    provider = next((name for name in CLOUDS if environment.switch(name)), "")
    source, method = provider, "third_party"
    if not provider:
        source, method = find_source(environment, current), "api_key"
    if not source:
        keys = RowKeys(current.environ, current.places)
        rows, _ = read_services(read_object(current.settings, "services"))
        row = find_keyed_row(rows, current.environ, keys.has)
        provider = source = "" if row is None else row.name
    return {
        # A local model or a gateway may need no credentials.
        "loggedIn": bool(source) or not read_endpoint(environment).wants_credentials,
        "authMethod": method if source else "none",
        "apiProvider": provider or "firstParty",
        **({"apiKeySource": source} if source else {}),
        "configDirectory": str(home),
        "projectsDirectory": str(home / "projects"),
    }


def find_source(environment: Environment, current: CurrentRules) -> str:
    """Return the source of the key or token for the default service, or an empty string."""
    endpoint = read_endpoint(environment)
    for field, value in (("api_key", endpoint.api_key), ("auth_token", endpoint.auth_token)):
        if value:
            return environment.source(field) or field
    if read_text(current.settings, "apiKeyHelper"):
        return "apiKeyHelper"
    if not endpoint.wants_credentials:
        return ""
    if ask_keyring(find_keyring(), SERVICE, ACCOUNT):
        return "keyring"
    return "clew login" if read_login(current.places.credentials) else ""
