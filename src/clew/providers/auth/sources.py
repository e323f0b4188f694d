"""Find the credentials of a cloud in the places that its own tools use.

AWS: variables, a profile (static or `credential_process`), a container, an instance, `aws configure
export-credentials`. Google: a service account, gcloud's login, the metadata server, `gcloud
auth print-access-token`. Azure: `az account get-access-token`. Must never log or show a secret.
"""

import configparser
import json
import shlex
import time
from collections.abc import Mapping
from datetime import datetime
from pathlib import Path
from typing import Any

from msgspec import Struct

from clew.core.json_object import Json, object_of, text_of
from clew.providers.anthropic import CredentialError
from clew.providers.auth.rs256 import InvalidKeyError, make_token
from clew.providers.auth.sigv4 import AwsKeys
from clew.system.config.settings import read_text
from clew.system.files import is_there
from clew.system.process.output import ProcessOutput
from clew.system.process.run import run
from clew.system.process.spawn import Launcher
from clew.system.transport.seam import HttpRequest, Transport, TransportError

PROGRAM_TIMEOUT_S = 60.0
NETWORK_TIMEOUT_S = 10.0
# Local metadata servers respond immediately or not at all.
METADATA_TIMEOUT_S = 2.0
MOST_BYTES = 1 << 20
ECS_HOST = "http://169.254.170.2"
IMDS = "http://169.254.169.254/latest"
GOOGLE_METADATA = (
    "http://metadata.google.internal/computeMetadata/v1/instance/service-accounts/default/token"
)
GOOGLE_SCOPE = "https://www.googleapis.com/auth/cloud-platform"
GOOGLE_TOKENS = "https://oauth2.googleapis.com/token"
TOKEN_LIFE_S = 3600
NO_AWS = (
    "no AWS credentials: set AWS_PROFILE, AWS_BEARER_TOKEN_BEDROCK, or both AWS_ACCESS_KEY_ID and "
    "AWS_SECRET_ACCESS_KEY; or run aws sso login"
)
NO_GOOGLE = (
    "no Google credentials: set GOOGLE_APPLICATION_CREDENTIALS, or run gcloud auth "
    "application-default login"
)
NO_AZURE = "no Azure credentials: run az login, or set the service's key"


class Token(Struct, frozen=True, kw_only=True):
    """A bearer token. `repr` does not show it."""

    secret: str
    expires_at_s: float | None = None

    def __repr__(self) -> str:
        return f"Token(expires_at_s={self.expires_at_s!r})"


class CloudSources:
    """The sources of cloud credentials."""

    def __init__(
        self,
        environ: Mapping[str, str],
        transport: Transport,
        launcher: Launcher,
        cwd: Path,
        settings: Json | None = None,
    ) -> None:
        settings = settings or {}
        # The user's commands: one prints AWS keys, the others refresh stored credentials.
        self._export = read_text(settings, "awsCredentialExport")
        self._refresh_aws = read_text(settings, "awsAuthRefresh")
        self._refresh_google = read_text(settings, "gcpAuthRefresh")
        self._environ = environ
        self._transport = transport
        self._launcher = launcher
        self._cwd = cwd
        self._home = Path(environ.get("HOME", "/nonexistent"))

    # -- AWS

    async def find_aws_keys(self) -> AwsKeys:
        """Return the AWS keys; if none are found, refresh and search again."""
        try:
            return await self._find_aws_keys()
        except CredentialError:
            if not self._refresh_aws:
                raise
        await self.refresh_aws()
        return await self._find_aws_keys()

    async def refresh_aws(self) -> None:
        """Run the user's command that logs in again, if there is one."""
        await self._run_shell(self._refresh_aws)

    async def refresh_google(self) -> None:
        """Run the user's command that logs in again, if there is one."""
        await self._run_shell(self._refresh_google)

    async def _run_shell(self, command: str | None) -> bytes | None:
        return await self._run(["/bin/sh", "-c", command]) if command else None

    async def _find_aws_keys(self) -> AwsKeys:
        environ = self._environ
        if self._export:
            printed = _json(await self._run_shell(self._export) or b"")
            exported = aws_keys_of(object_of(printed.get("Credentials")) or printed)
            if exported is None:
                raise CredentialError("awsCredentialExport failed or printed no credentials")
            return exported
        if environ.get("AWS_ACCESS_KEY_ID") and environ.get("AWS_SECRET_ACCESS_KEY"):
            return AwsKeys(
                access_key=environ["AWS_ACCESS_KEY_ID"],
                secret_key=environ["AWS_SECRET_ACCESS_KEY"],
                token=environ.get("AWS_SESSION_TOKEN", ""),
            )
        profile = read_profile(environ)
        if profile.get("aws_access_key_id") and profile.get("aws_secret_access_key"):
            return AwsKeys(
                access_key=profile["aws_access_key_id"],
                secret_key=profile["aws_secret_access_key"],
                token=profile.get("aws_session_token", ""),
            )
        if command := profile.get("credential_process"):
            output = await self._run_json(shlex.split(command))
            if (keys := aws_keys_of(output)) is not None:
                return keys
            raise CredentialError(
                "credential_process of the AWS profile failed or printed no credentials"
            )
        if not profile and "AWS_PROFILE" not in environ:
            keys = await self._find_in_container() or await self._find_in_instance()
            if keys is not None:
                return keys
        name = environ.get("AWS_PROFILE")
        program = ["aws", "configure", "export-credentials", "--format", "process"]
        keys = aws_keys_of(await self._run_json([*program, *(["--profile", name] if name else [])]))
        if keys is None:
            raise CredentialError(NO_AWS)
        return keys

    async def _find_in_container(self) -> AwsKeys | None:
        environ = self._environ
        relative = environ.get("AWS_CONTAINER_CREDENTIALS_RELATIVE_URI")
        url = (
            f"{ECS_HOST}{relative}"
            if relative
            else environ.get("AWS_CONTAINER_CREDENTIALS_FULL_URI")
        )
        if not url:
            return None
        token = environ.get("AWS_CONTAINER_AUTHORIZATION_TOKEN", "")
        file = environ.get("AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE")
        if file:
            token = _read(Path(file)).strip()
        headers = {"authorization": token} if token else {}
        return aws_keys_of(await self._get_json(url, headers, METADATA_TIMEOUT_S))

    async def _find_in_instance(self) -> AwsKeys | None:
        if self._environ.get("AWS_EC2_METADATA_DISABLED", "").lower() == "true":
            return None
        token_headers = {"x-aws-ec2-metadata-token-ttl-seconds": "21600"}
        put = HttpRequest(
            method="PUT", url=f"{IMDS}/api/token", headers=tuple(token_headers.items()), body=b""
        )
        token = await self._send(put, METADATA_TIMEOUT_S)
        if token is None:
            return None
        headers = {"x-aws-ec2-metadata-token": token.decode("ascii", "replace")}
        url = f"{IMDS}/meta-data/iam/security-credentials/"
        role = await self._get(url, headers, METADATA_TIMEOUT_S)
        if not role:
            return None
        name = role.decode("ascii", "replace").split("\n")[0].strip()
        return aws_keys_of(await self._get_json(url + name, headers, METADATA_TIMEOUT_S))

    # -- Google

    async def find_google_token(self) -> Token:
        path = self._environ.get("GOOGLE_APPLICATION_CREDENTIALS")
        login = self._home / ".config" / "gcloud" / "application_default_credentials.json"
        file = Path(path) if path else login
        if path or is_there(file):
            return await self._ask_for_google_token(file)
        reply = await self._get_json(
            GOOGLE_METADATA, {"metadata-flavor": "Google"}, METADATA_TIMEOUT_S
        )
        if (token := google_token_of(reply)) is not None:
            return token
        printed = await self._run(["gcloud", "auth", "print-access-token"])
        if not printed:
            raise CredentialError(NO_GOOGLE)
        return Token(secret=printed.decode().strip(), expires_at_s=time.time() + TOKEN_LIFE_S / 2)

    async def _ask_for_google_token(self, file: Path) -> Token:
        try:
            account = object_of(json.loads(_read(file)))
        except (OSError, ValueError) as error:
            raise CredentialError(f"{file}: cannot be read ({type(error).__name__})") from error
        match account.get("type"):
            case "service_account":
                try:
                    form = make_google_grant(account, time.time())
                except InvalidKeyError as error:
                    raise CredentialError(f"{file}: {error}") from error
            case "authorized_user":
                form = {
                    "grant_type": "refresh_token",
                    **{
                        k: text_of(account.get(k))
                        for k in ("client_id", "client_secret", "refresh_token")
                    },
                }
            case kind:
                raise CredentialError(
                    f"{file}: credentials of type {kind!r} are not supported; "
                    "use a service account, or gcloud auth application-default login"
                )
        url = text_of(account.get("token_uri")) or GOOGLE_TOKENS
        request = HttpRequest(
            method="POST",
            url=url,
            headers=(("content-type", "application/x-www-form-urlencoded"),),
            body=_form(form),
        )
        answer = await self._send(request, NETWORK_TIMEOUT_S)
        token = None if answer is None else google_token_of(_json(answer))
        if token is None:
            raise CredentialError(f"{url} did not accept the credentials in {file}")
        return token

    # -- Azure

    async def find_azure_token(self) -> Token:
        program = ["az", "account", "get-access-token", "--output", "json"]
        resource = ["--resource", "https://cognitiveservices.azure.com"]
        output = await self._run_json([*program, *resource])
        secret = text_of(output.get("accessToken"))
        if not secret:
            raise CredentialError(NO_AZURE)
        expires = output.get("expires_on")
        at_s = float(expires) if isinstance(expires, int) else time.time() + TOKEN_LIFE_S / 2
        return Token(secret=secret, expires_at_s=at_s)

    # -- programs and addresses

    async def _run(self, argv: list[str]) -> bytes | None:
        output, thrown_away = ProcessOutput(keep_bytes=MOST_BYTES), ProcessOutput(keep_bytes=0)
        try:
            finished = await run(
                self._launcher,
                argv,
                cwd=self._cwd,
                env=self._environ,
                stdout=output,
                stderr=thrown_away,
                timeout_s=PROGRAM_TIMEOUT_S,
            )
        except OSError:
            return None
        return None if finished.timed_out or finished.exit.code != 0 else bytes(output.head)

    async def _run_json(self, argv: list[str]) -> Json:
        return _json(await self._run(argv) or b"")

    async def _get(self, url: str, headers: Mapping[str, str], wait_s: float) -> bytes | None:
        request = HttpRequest(method="GET", url=url, headers=tuple(headers.items()), body=b"")
        return await self._send(request, wait_s)

    async def _get_json(self, url: str, headers: Mapping[str, str], wait_s: float) -> Json:
        return _json(await self._get(url, headers, wait_s) or b"")

    async def _send(self, request: HttpRequest, wait_s: float) -> bytes | None:
        import asyncio

        exchange = self._transport.exchange(request)
        try:
            async with asyncio.timeout(wait_s):
                head = await exchange.open()
                data = b""
                while len(data) < MOST_BYTES and (piece := await exchange.read()):
                    data += piece
        except (TransportError, TimeoutError):
            return None
        finally:
            await exchange.close()
        return data if head.status == 200 else None


def read_profile(environ: Mapping[str, str]) -> dict[str, str]:
    """Return the settings of the selected AWS profile."""
    values: dict[str, str] = {}
    name = environ.get("AWS_PROFILE") or environ.get("AWS_DEFAULT_PROFILE") or "default"
    folder = Path(environ.get("HOME", "/nonexistent")) / ".aws"
    config = Path(environ.get("AWS_CONFIG_FILE") or folder / "config")
    shared = Path(environ.get("AWS_SHARED_CREDENTIALS_FILE") or folder / "credentials")
    section = "default" if name == "default" else f"profile {name}"
    for path, wanted in ((config, section), (shared, name)):
        parser = configparser.RawConfigParser()
        try:
            parser.read_string(path.read_text("utf-8"))
        except (OSError, ValueError, configparser.Error):
            continue
        if parser.has_section(wanted):
            values.update(dict(parser.items(wanted)))
    return values


def make_google_grant(account: Json, now_s: float) -> dict[str, str]:
    """Return a service account's token request."""
    claims = {
        "iss": text_of(account.get("client_email")),
        "scope": GOOGLE_SCOPE,
        "aud": text_of(account.get("token_uri")) or GOOGLE_TOKENS,
        "iat": int(now_s),
        "exp": int(now_s) + TOKEN_LIFE_S,
    }
    assertion = make_token(
        claims, text_of(account.get("private_key")), text_of(account.get("private_key_id"))
    )
    return {"grant_type": "urn:ietf:params:oauth:grant-type:jwt-bearer", "assertion": assertion}


def google_token_of(fields: Json) -> Token | None:
    secret, seconds = text_of(fields.get("access_token")), fields.get("expires_in")
    if not secret:
        return None
    life_s = seconds if isinstance(seconds, int) else TOKEN_LIFE_S / 2
    return Token(secret=secret, expires_at_s=time.time() + life_s)


def aws_keys_of(fields: Json) -> AwsKeys | None:
    """Return the keys in the output of a program or metadata server of AWS, or None."""
    access, secret = text_of(fields.get("AccessKeyId")), text_of(fields.get("SecretAccessKey"))
    if not access or not secret:
        return None
    expires: float | None = None
    if text := text_of(fields.get("Expiration")):
        try:
            expires = datetime.fromisoformat(text.replace("Z", "+00:00")).timestamp()
        except ValueError:
            expires = time.time()
    token = text_of(fields.get("SessionToken")) or text_of(fields.get("Token"))
    return AwsKeys(access_key=access, secret_key=secret, token=token, expires_at_s=expires)


def _read(path: Path) -> str:
    # These files are small, and requests have to wait for them anyway.
    return path.read_text("utf-8")


def _json(data: bytes) -> Json:
    try:
        value: Any = json.loads(data or b"{}")
    except ValueError:
        return {}
    return object_of(value)


def _form(fields: Mapping[str, str]) -> bytes:
    from urllib.parse import urlencode

    return urlencode(fields).encode()
