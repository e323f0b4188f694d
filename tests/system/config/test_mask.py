"""The one function that hides secrets: by rules, by names and by what was named to it."""

import json
import random
import sysconfig
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clew.system.config.mask import HIDDEN, mask, mask_lines, mask_member
from clew.system.config.secret_search import find_secret_spans, folded, merged
from clew.system.config.secret_shapes import kind_of
from tests.system.config.secret_samples import SAMPLES, Sample, base62, hexadecimal

SECRETS = [
    "sk-ant-api03-AbCdEf0123456789_-xyz",
    "sk-proj-AbCdEf0123456789AbCd",
    "ghp_0123456789abcdefABCDEF",
    "github_pat_11ABCDEFG0123456789",
    "xoxb-1234567890-abcdef",
    "AKIAIOSFODNN7EXAMPLE",
    "AIzaSyA0123456789abcdef",
    "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0.abc-DEF_123",
]


@pytest.mark.parametrize("secret", SECRETS)
@pytest.mark.parametrize("frame", ["{}", "key is {} ok", '{{"k": "{}"}}', "curl -H 'x: {}'"])
def test_secrets_of_known_shapes_are_hidden(secret: str, frame: str) -> None:
    shown = mask(frame.format(secret))
    assert HIDDEN in shown
    assert secret[8:] not in shown


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Authorization: Bearer abcdef123456", f"Authorization: Bearer {HIDDEN}"),
        ('"authorization": "Basic dXNlcjpwYXNz"', f'"authorization": "Basic {HIDDEN}"'),
        ("bearer 0123456789abcdef0123", f"bearer {HIDDEN}"),
        ("https://me:hunter2@host/x", f"https://me:{HIDDEN}@host/x"),
        ("password=correcthorse;", f"password={HIDDEN};"),
        ('api_key: "0123456789abcdef"', f'api_key: "{HIDDEN}"'),
        ("AWS_SECRET_ACCESS_KEY=wJalrXUtnFEMI/K7", f"AWS_SECRET_ACCESS_KEY={HIDDEN}"),
        ("max_tokens: 8192", "max_tokens: 8192"),
        ("the token was fine", "the token was fine"),
        (
            "-----BEGIN RSA PRIVATE KEY-----\nabc\n-----END RSA PRIVATE KEY-----\nx",
            f"-----BEGIN RSA PRIVATE KEY-----{HIDDEN}\nx",
        ),
        ("-----BEGIN PRIVATE KEY-----\nabc", f"-----BEGIN PRIVATE KEY-----{HIDDEN}"),
        ("nothing here", "nothing here"),
    ],
)
def test_secrets_are_known_by_what_stands_before_them(text: str, expected: str) -> None:
    assert mask(text) == expected


@given(
    secret=st.text(min_size=6, max_size=30), before=st.text(max_size=10), after=st.text(max_size=10)
)
def test_a_secret_that_is_known_never_stays(secret: str, before: str, after: str) -> None:
    shown = mask(before + secret + after, [secret, "x", ""])
    assert secret not in shown or secret in HIDDEN


@pytest.mark.no_cover
@pytest.mark.parametrize("sample", SAMPLES, ids=lambda sample: sample.name)
def test_no_format_of_a_secret_stays(sample: Sample) -> None:
    shown = mask(sample.text)
    assert HIDDEN in shown
    for secret in sample.secrets:
        half = len(secret) // 2
        assert secret[: half + 1] not in shown
        assert secret[half:] not in shown


FRAMES = ("{}", '{{"text": {json}}}', "line\n{}\nline", "\t{}", "'{}'", "({})")


@pytest.mark.parametrize("frame", FRAMES)
def test_what_stands_around_a_secret_does_not_show_it(frame: str) -> None:
    for sample in SAMPLES:
        shown = mask(frame.format(sample.text, json=json.dumps(sample.text)))
        for secret in sample.secrets:
            assert secret not in shown, sample.name


KEPT = [
    "max_tokens: 8192",
    "the token was fine",
    "password: str",
    "def login(user: str, password: str | None = None, token: Token = NO_TOKEN) -> None:",
    "self.password = password",
    "token = parse_token(line)",
    "key=lambda pair: pair[1]",
    "api_key = os.environ['API_KEY']",
    "secret: process.env.SECRET_VALUE,",
    "export TOKEN=$OTHER_TOKEN",
    "--token <TOKEN>  --password-stdin  --token-file ./token.txt",
    "password: ${DB_PASSWORD}",
    "PASSWORD=changeme",
    "Authorization: Bearer $TOKEN",
    "Authorization: Bearer {token}",
    "docker run -u 1000:1000 -u node:node image",
    "https://example.com:8080/a@b",
    "https://${USER}:${PASSWORD}@example.com",
    '{"password": "Enter your password"}',
    "primary_key: customer_2024_identifier",
    'public_key = "AbC1dEf2GhI3jKl4MnO5pQr6"',
    '"sessionId": "0b5c2a1e-7d4f-4e0a-9c57-1f2e3d4c5b6a"',
    "commit 4dc56ad0f6c1b2a39485768594a3b2c1d0e9f8a7",
    "index 4dc56ad..7cf493d 100644",
    "toolu_01AbCdEfGhIjKlMnOpQrStUv",
    "npm_config_registry=https://example.com",
    "hf_hub_download(repo_id)",
    "sk-ecdsa-sha2-nistp256@openssh.com",
    '"passwd", "userpass", "credentials"',
    "token: AuthTypes | None",
    "cache_key: a1b2c3d4e5f60718",
    "kind: Secretary\ndata:\n  user: bob\n",
    "# use --username and --password options",
    "Set the header Cookie: to what you got",
    "secret: [a-z0-9]{20,40}",
    "alphabet_token = ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789",
    "secret_path: /etc/ssl/private/server.key",
    "<password>",
    "<token>plain words</token>",
    "AKIAAAAAAAAAAAAAAAAA",
    '"password": "The password must be long"',
    '"auth": "abc=abcd"',
    "http -a 12",
    "grep -a bob:hunter22 notes",
    "curl -u bob:$PASSWORD https://example.com",
    "password=ab",
    "password: account.passwords",
    "password: {'Some words': 1}",
    "curl -b cookies.txt -c jar",
    "git push -u origin main",
    "grafana = [graph, panel]",
    "the key: value pairs of a map",
]


@pytest.mark.parametrize("text", KEPT)
def test_what_is_no_secret_stays(text: str) -> None:
    assert mask(text) == text


def test_the_value_of_a_field_is_judged_by_its_name() -> None:
    assert mask_member("password", "correct-horse") == HIDDEN
    assert mask_member("apiKey", "0123456789abcdef") == HIDDEN
    assert mask_member("auth", "Ym9iOmh1bnRlcjI=") == HIDDEN
    assert mask_member("Authorization", "Bearer abcdef123456") == f"Bearer {HIDDEN}"
    assert mask_member("authorization", "x") == "x"
    assert mask_member("auth", "not base64!!") == "not base64!!"
    assert mask_member("Set-Cookie", "sid=abcdef; Path=/") == f"sid={HIDDEN}"
    assert mask_member("uuid", "0b5c2a1e-7d4f-4e0a-9c57-1f2e3d4c5b6a").startswith("0b5c2a1e")
    assert mask_member("text", "password=hunter2x") == f"password={HIDDEN}"


def test_a_secret_over_several_lines_is_hidden_in_each() -> None:
    key = [
        "+-----BEGIN PRIVATE KEY-----",
        "+" + base62(64),
        "+" + base62(64),
        "+-----END PRIVATE KEY-----",
    ]
    shown = mask_lines(["first", *key, "last", "password=hunter2x", ""])
    assert shown[:2] == ["first", key[0]]
    assert shown[2:5] == [HIDDEN] * 3
    assert shown[5:] == ["last", f"password={HIDDEN}", ""]


@given(st.lists(st.sampled_from([*(s.text for s in SAMPLES), "", "a\nb", "key: x"]), max_size=4))
def test_lines_that_were_split_are_masked_as_the_text_is(parts: list[str]) -> None:
    lines = "\n".join(parts).split("\n")
    together = mask("\n".join(lines))
    assert mask(together.replace(HIDDEN, "")) is not None
    shown = mask_lines(lines)
    assert len(shown) == len(lines)
    for sample in SAMPLES:
        for secret in sample.secrets if sample.text in parts else ():
            assert secret not in "\n".join(shown)


@given(st.lists(st.sampled_from([s.text for s in SAMPLES]) | st.text(max_size=9), max_size=4))
def test_what_was_masked_is_left_alone(parts: list[str]) -> None:
    once = mask(" ".join(parts))
    assert mask(once).replace(HIDDEN, "") in (
        once.replace(HIDDEN, ""),
        mask(mask(once)).replace(HIDDEN, ""),
    )


@given(st.lists(st.sampled_from([s.text for s in SAMPLES]) | st.text(max_size=20), max_size=5))
def test_masked_json_is_json(parts: list[str]) -> None:
    value = {"text": "\n".join(parts), "password": "hunter2x", "list": parts}
    for text in (json.dumps(value), json.dumps(value, indent=1), json.dumps(json.dumps(value))):
        json.loads(mask(text))


@given(st.text())
def test_folding_keeps_every_letter_at_its_place(text: str) -> None:
    assert len(folded(text + "\u0130")) == len(text) + 1


def test_spans_that_touch_are_one() -> None:
    assert merged([(5, 7), (0, 3), (3, 4), (6, 6), (1, 2)]) == [(0, 4), (5, 7)]
    assert find_secret_spans("nothing here") == []


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("DB_PASSWORD", "password"),
        ("pgPasswd", "password"),
        ("apiKey", "key"),
        ("APIKey", "key"),
        ("aws_secret_access_key", "key"),
        ("client-secret", "token"),
        ("token_prod", "token"),
        ("cache_key", ""),
        ("key", "weak key"),
        ("session_id", "weak key"),
        ("max_tokens", ""),
        ("next_page_token", ""),
        ("", ""),
        ("12", ""),
    ],
)
def test_a_name_tells_what_its_value_is(name: str, kind: str) -> None:
    assert kind_of(name) == kind


def lock_files() -> str:
    """Lines as lock files of several programs and logs of git have them, with random hashes."""
    dice = random.Random(1)

    def base64_of(size: int) -> str:
        letters = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"
        return "".join(dice.choice(letters) for _ in range(size))

    lines = []
    for n in range(300):
        digest, commit = hexadecimal(64), hexadecimal(40)
        name = f"left-pad-{n}"
        lines += [
            f'    "node_modules/{name}": {{',
            f'      "resolved": "https://registry.example/{name}/-/{name}-1.{n}.0.tgz",',
            f'      "integrity": "sha512-{base64_of(86)}=="',
            f"  resolution: {{integrity: sha512-{base64_of(86)}==}}",
            f'checksum = "{digest}"',
            f"    --hash=sha256:{digest} \\",
            f'    {{file = "{name}-1.0.tar.gz", hash = "sha256:{digest}"}},',
            f"github.com/x/{name} v1.{n}.0 h1:{base64_of(43)}=",
            f"github.com/x/{name} v1.{n}.0/go.mod h1:{base64_of(43)}=",
            f'    "h1:{base64_of(43)}=",',
            f'  sha256 = "sha256-{base64_of(43)}=";',
            f"commit {commit}",
            f"Merge: {commit[:8]} {commit[9:17]}",
            f"index {commit[:10]}..{commit[10:20]} 100644",
            f"{commit[:9]} Fix the token of the parser (#{n})",
            f"Change-Id: I{commit}",
            f"image: example/app@sha256:{digest}",
            f"ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAI{base64_of(43)} bob@example",
            f'<img src="data:image/png;base64,iVBORw0KGgo{base64_of(80)}">',
            f"uuid: {commit[:8]}-{commit[8:12]}-4{commit[13:16]}-8{commit[17:20]}-{commit[20:32]}",
            f'<script nonce="{base64_of(22)}" integrity="sha384-{base64_of(64)}"></script>',
            f"ETag: W/{digest[:32]}",
        ]
    certificate = "\n".join(base64_of(64) for _ in range(20)) + "\n" + base64_of(40) + "=="
    return "\n".join(
        [*lines, "-----BEGIN CERTIFICATE-----", certificate, "-----END CERTIFICATE-----", ""]
    )


def test_lock_files_and_logs_of_git_stay_as_they_are() -> None:
    text = lock_files()
    shown = mask(text)
    changed = [a for a, b in zip(text.split("\n"), shown.split("\n"), strict=True) if a != b]
    assert not changed


def test_ordinary_source_stays_as_it_is() -> None:
    """At most two values in ten thousand lines of Python's own library and of clew are taken for secrets."""
    library = Path(sysconfig.get_path("stdlib"))
    here = Path(__file__).parents[3] / "src"
    files = [*library.glob("*.py"), *library.glob("[a-k]*/*.py"), *here.rglob("*.py")]
    texts = [
        f.read_text("utf-8", "replace")
        for f in files
        if "secret_" not in f.name and "gitleaks" not in f.name
    ]
    lines = sum(text.count("\n") for text in texts)
    masked = sum(len(find_secret_spans(text)) for text in texts)
    assert lines > 200_000
    assert masked * 10_000 <= lines * 2


LONG = 30_000
HOSTILE = ["a://", "password ", "-----BEGIN PRIVATE KEY-----", "key=", "_pat=", 'token="', "userpass: ", "eyJ",
           "sk-", "login -u ", "Cookie: a=b; ", "Authorization: ", "kind: Secret\ndata:\n a: b\n", "a" * 99 + "=",
           "mysql -", "echo x | ", "private-lines: 9\n", "key&gt;", "--token\n"]  # fmt: skip


@pytest.mark.parametrize("unit", HOSTILE)
def test_masking_ends_on_texts_made_against_it(unit: str) -> None:
    """That its time grows as the text does is measured by `make bench ONLY=mask`."""
    assert mask(unit * (LONG // len(unit)))
