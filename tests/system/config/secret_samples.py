"""Made-up secrets in the formats of their services, put together when the tests run: none stands in a file.

`SAMPLES`: a name, a text as it occurs in sessions, and the parts of it that must not come out.
"""

import base64
import random
import string
from typing import NamedTuple

_DICE = random.Random(20_261_123)
_BASE62 = string.ascii_letters + string.digits


class Sample(NamedTuple):
    name: str
    text: str
    secrets: tuple[str, ...]


def any_of(letters: str, size: int) -> str:
    return "".join(_DICE.choice(letters) for _ in range(size))


def base62(size: int) -> str:
    """With a digit, a small and a capital letter, as random values of some length have."""
    return any_of(_BASE62, size - 3) + any_of(string.digits, 1) + "q" + "Z"


def lower(size: int) -> str:
    return any_of(string.ascii_lowercase + string.digits, size - 2) + "7k"


def upper(size: int) -> str:
    return any_of(string.ascii_uppercase + "234567", size)


def hexadecimal(size: int) -> str:
    return any_of("0123456789abcdef", size)


def digits(size: int) -> str:
    return any_of("123456789", size)


def base64_of(size: int) -> str:
    return base64.b64encode(_DICE.randbytes(size)).decode()


def uuid() -> str:
    return "-".join(hexadecimal(size) for size in (8, 4, 4, 4, 12))


def part(of: str) -> str:
    """A part of a token, as a value that is encoded has: a JWT's, for one."""
    return base64.urlsafe_b64encode(of.encode()).decode().rstrip("=")


def pem(kind: str, lines: int = 6) -> tuple[str, list[str]]:
    body = [any_of(_BASE62 + "+/", 64) for _ in range(lines)]
    return "\n".join([f"-----BEGIN {kind}-----", *body, f"-----END {kind}-----"]), body


SAMPLES: list[Sample] = []


def add(name: str, text: str, *secrets: str) -> None:
    """`text` with `{}` for each secret, in order."""
    SAMPLES.append(Sample(name, text.format(*secrets), secrets))


def tokens() -> None:
    add("aws key id", "id " + "AKIA" + "{}", upper(16))
    add("aws temporary key id", "aws_access_key_id = " + "ASIA" + "{}", upper(16))
    add("aws secret", "aws_secret_access_key = {}", base62(20) + "/" + base62(19))
    add(
        "aws secret alone",
        "the other half is {} of it",
        base62(17) + "/" + base62(10) + "+" + base62(11),
    )
    add("aws session token", "AWS_SESSION_TOKEN={}", "IQoJb3JpZ2luX2Vj" + base64_of(120))
    add("github", "gh" + "p_{}", base62(36))
    add("github oauth", "gh" + "o_{}", base62(36))
    add("github app", "gh" + "s_{}", base62(36))
    add("github fine-grained", "github" + "_pat_{}", base62(22) + "_" + base62(59))
    add("gitlab", "gl" + "pat-{}", base62(20))
    add("gitlab deploy", "gl" + "dt-{}", base62(20))
    add("gitlab runner", "gl" + "rt-{}", base62(20))
    add("slack bot", "xox" + "b-{}", f"{digits(12)}-{digits(12)}-{base62(24)}")
    add("slack user", "xox" + "p-{}", f"{digits(12)}-{digits(12)}-{digits(12)}-{hexadecimal(32)}")
    add("slack app", "xapp" + "-1-{}", f"A{upper(9)}-{digits(12)}-{hexadecimal(64)}")
    add(
        "slack webhook",
        "https://hooks.slack.com/services/{}",
        f"T{upper(8)}/B{upper(8)}/{base62(24)}",
    )
    add("discord webhook", f"https://discord.com/api/webhooks/{digits(18)}/" + "{}", base62(68))
    add("discord bot", "client.run('{}')", f"M{base62(23)}.{base62(6)}.{base62(38)}")
    add("telegram", f"bot {digits(10)}:" + "{}", "AA" + base62(33))
    add("stripe", "sk_" + "live_{}", base62(24))
    add("stripe restricted", "rk_" + "live_{}", base62(24))
    add("stripe webhook", "wh" + "sec_{}", base62(32))
    add("twilio", "TWILIO_AUTH_TOKEN={}", hexadecimal(32))
    add("twilio key", "S" + "K{}", hexadecimal(32))
    add("sendgrid", "S" + "G.{}", f"{base62(22)}.{base62(43)}")
    add("mailgun", "key" + "-{}", hexadecimal(32))
    add("mailchimp", "mailchimp_api_key: {}", hexadecimal(32) + "-us12")
    add("npm", "npm" + "_{}", base62(36))
    add("npmrc", "//registry.example/:_authToken={}", uuid())
    add("npmrc basic", "_auth={}", base64.b64encode(b"bob:" + base62(9).encode()).decode())
    add("pypi", "py" + "pi-{}", "AgEIcHlwaS5vcmc" + base62(70))
    add("docker hub", "dckr" + "_pat_{}", base62(27))
    add(
        "docker config",
        '{{"auths": {{"r.example": {{"auth": "{}"}}}}}}',
        base64.b64encode(b"bob:" + base62(11).encode()).decode(),
    )
    add("rubygems", "rubygems" + "_{}", hexadecimal(48))
    add("anthropic", "sk" + "-ant-api03-{}", base62(93) + "AA")
    add("openai", "sk" + "-proj-{}", base62(48))
    add("openai, old", "sk" + "-{}", base62(20) + "T3Blbk" + "FJ" + base62(20))
    add("hugging face", "hf" + "_{}", any_of(string.ascii_letters, 34))
    add("google api", "AI" + "za{}", "Sy" + base62(33))
    add("google oauth", "ya" + "29.{}", base62(60))
    add("google client", "GOCS" + "PX-{}", base62(28))
    add("google refresh", "1/" + "/0{}", base62(60))
    add("digitalocean", "dop" + "_v1_{}", hexadecimal(64))
    add("heroku", "HEROKU_API_KEY={}", uuid())
    add("cloudflare", "CLOUDFLARE_API_TOKEN={}", base62(40))
    add("datadog", 'datadog_api_key: "{}"', hexadecimal(32))
    add("new relic", "NEW_RELIC_LICENSE_KEY={}", hexadecimal(36) + "NRAL")
    add("sentry", "sn" + "tryu_{}", hexadecimal(64))
    add("linear", "lin" + "_api_{}", base62(40))
    add("notion", "nt" + "n_{}", digits(11) + base62(35))
    add("airtable", "airtable " + "pat{}", base62(14) + "." + hexadecimal(64))
    add("figma", "fi" + "gd_{}", base62(40))
    add("postman", "PM" + "AK-{}", hexadecimal(24) + "-" + hexadecimal(34))
    add("databricks", "da" + "pi{}", hexadecimal(32))
    add("shopify", "sh" + "pat_{}", hexadecimal(32))
    add("square", "sq" + "0atp-{}", base62(22))
    add("vault", "hv" + "s.{}", base62(95))
    add("terraform cloud", "{}", base62(14) + "." + "atlas" + "v1." + base62(67))
    add("pulumi", "pu" + "l-{}", hexadecimal(40))
    add("doppler", "dp" + ".pt.{}", base62(43))
    add("planetscale", "pscale" + "_tkn_{}", base62(43))
    add("supabase", "sb" + "p_{}", hexadecimal(40))
    add("groq", "gs" + "k_{}", base62(52))
    add("replicate", "r" + "8_{}", base62(37))
    add("perplexity", "pp" + "lx-{}", base62(48))
    add("nvidia", "nv" + "api-{}", base62(60))
    add("tailscale", "ts" + "key-auth-{}", base62(17) + "-" + base62(32))
    add("1password", "op" + "s_{}", "eyJ" + base62(260))
    add("atlassian", "AT" + "ATT3{}", "xFfGF0" + base62(180))
    add(
        "azure storage",
        "DefaultEndpointsProtocol=https;AccountName=a;AccountKey={};EndpointSuffix=x",
        base64_of(64),
    )
    add("azure client", "AZURE_CLIENT_SECRET={}", base62(3) + "8" + "Q~" + base62(34))
    add("azure sas", "https://a.blob.core.example/c?sv=2024-01-01&sig={}&se=x", base62(43) + "%3D")
    add("jwt", "token ey" + "J{}", f"{part('{alg:HS256}')}.{part('{sub:1}')}.{base62(43)}")
    add("age", "AGE-SECRET" + "-KEY-1{}", any_of("QPZRY9X8GF2TVDW0S3JN54KHCE6MUA7L", 58))
    add("wireguard", "[Interface]\nPrivateKey = {}\nAddress = 10.0.0.2", base64_of(32))


def keys() -> None:
    for kind in (
        "RSA PRIVATE KEY",
        "OPENSSH PRIVATE KEY",
        "PRIVATE KEY",
        "ENCRYPTED PRIVATE KEY",
        "EC PRIVATE KEY",
        "PGP PRIVATE KEY BLOCK",
    ):
        text, body = pem(kind)
        SAMPLES.append(Sample(kind.lower(), text, tuple(body)))
    text, body = pem("PRIVATE KEY")
    escaped = text.replace("\n", "\\n")
    SAMPLES.append(Sample("key in json", f'{{"private_key": "{escaped}\\n"}}', tuple(body)))
    pem_lines = text.split("\n")
    numbered = "\n".join(f"{n:6}\t{line}" for n, line in enumerate(pem_lines, 1))
    SAMPLES.append(Sample("key with numbers of lines", numbered, tuple(body)))
    added = "\n".join("+" + line for line in pem_lines)
    SAMPLES.append(Sample("key in a diff", f"--- a\n+++ b\n{added}", tuple(body)))
    cut = "\n".join(pem_lines[:-2])
    SAMPLES.append(
        Sample("key that was cut", f"{cut}\n... (more)\n{'words ' * 5_000}", tuple(body[:-1]))
    )
    lines = [base64_of(48) for _ in range(4)]
    putty = "\n".join(
        [
            "PuTTY-User-Key-File-3: ssh-ed25519",
            "Private-Lines: 4",
            *lines,
            f"Private-MAC: {hexadecimal(64)}",
        ]
    )
    SAMPLES.append(Sample("putty", putty, tuple(lines)))


def commands() -> None:
    add("option with a blank", "gh-tool --token {} list", base62(20))
    add("option with a sign", "deploy --api-key={} --force", base62(20))
    add(
        "option with quotation marks",
        "deploy --password '{}' --force",
        "correct horse " + base62(6),
    )
    add("option in a list", '["deploy", "--client-secret", "{}"]', base62(20))
    add("option on the next line", "deploy \\\n  --token \\\n  {} \\\n  --force", base62(20))
    add("curl -u", "curl -u bob:{} https://example.com", "hunter2" + base62(4))
    add("curl --user", 'curl --user "bob:{}" https://example.com', "hunter2 " + base62(4))
    add("http -a", "http -a bob:{} example.com/x", base62(9))
    add("curl bearer", 'curl -H "Authorization: Bearer {}" https://example.com', base62(12))
    add(
        "curl basic",
        "curl -H 'Authorization: Basic {}' https://example.com",
        base64.b64encode(b"bob:hunter2").decode(),
    )
    add("curl header", 'curl -H "X-Api-Key: {}" https://example.com', base62(20))
    add("curl cookie", 'curl -H "Cookie: session={}; theme=dark" https://example.com', base62(20))
    add("curl -b", "curl -b 'sid={}' https://example.com", base62(20))
    add("private-token header", "curl --header 'PRIVATE-TOKEN: {}' https://example.com", base62(20))
    add("mysql", "mysql -u root -p{} shop", "hunter2" + base62(3))
    add("sshpass", "sshpass -p {} ssh bob@example.com", "hunter2" + base62(3))
    add("redis", "redis-cli -h example.com -a {} ping", base62(9))
    add("docker login", "docker login -u bob -p {} registry.example", base62(9))
    add("password by a pipe", "echo {} | docker login -u bob --password-stdin", base62(9))
    add("sudo by a pipe", "echo '{}' | sudo -S apt update", base62(9))
    add("variable before a command", "PGPASSWORD={} psql -h example.com", "hunter2x")
    add("export", 'export SERVICE_TOKEN="{}"', base62(18))
    add("openssl", "openssl enc -aes-256-cbc -pass pass:{} -in x", base62(9))
    add("kubectl", "kubectl create secret generic db --from-literal=password={}", base62(9))
    add("aws configure", "aws configure set aws_secret_access_key {}", base62(40))
    add("htpasswd", "htpasswd -bc .htpasswd bob {}", base62(9))
    add("ldap", "ldapsearch -D cn=admin -w {} -b dc=example", base62(9))
    add("smb", "smbclient //host/share -U bob%{}", base62(9))


def files() -> None:
    add("url", "postgres://bob:{}@db.example:5432/shop", base62(12))
    add("url with signs", "amqp://bob:{}@mq.example/v", "p@ss" + base62(6))
    add("url of git", "git clone https://{}@git.example/x.git", hexadecimal(40))
    add("url without a name", "REDIS_URL=redis://:{}@cache.example:6379", base62(12))
    add("env", "DEBUG=1\nDB_PASSWORD={}\nPORT=80", "hunter2" + base62(4))
    add("env with signs", "DB_PASSWORD={}", "a;b&c," + base62(6))
    add("json", '{{"user": "bob", "password": "{}"}}', "hunter2" + base62(4))
    add("json of json", '{{"body": "{{\\"apiKey\\": \\"{}\\"}}"}}', base62(24))
    add("json over lines", '{{\n  "client_secret":\n    "{}"\n}}', base62(24))
    add("yaml", "database:\n  user: bob\n  password: {}\n", "hunter2" + base62(4))
    add("yaml block", "token: |\n  {}\nuser: bob", base62(24))
    add("toml", 'api_key = "{}"', base62(24))
    add("ini", "[mail]\nuser = bob\npassword = {}\n", "hunter2" + base62(4))
    add("xml", "<server><username>bob</username><password>{}</password></server>", base62(9))
    add("xml attribute", '<add key="ApiKey" value="{}" />', base62(24))
    add("html", "&quot;api_key&quot;: &quot;{}&quot;", base62(24))
    add("html element", "&lt;secretKey&gt;{}&lt;/secretKey&gt;", base62(24))
    add("python", 'client = Client(api_key="{}", timeout=3)', base62(24))
    add("javascript", "const authToken = '{}';", base62(24))
    add("typescript", 'const token: string = "{}";', base62(24))
    add("go", 'secretKey := "{}"', base62(24))
    add("php", "'password' => '{}',", "hunter2" + base62(4))
    add("ruby", "secret_key_base: {}", hexadecimal(128))
    add("name and value", '- name: DB_PASSWORD\n  value: "{}"', "hunter2" + base62(4))
    add("netrc", "machine api.example login bob password {}", base62(9))
    add("pgpass", "db.example:5432:shop:bob:{}", base62(9))
    add("dockerfile", "ENV API_TOKEN {}", base62(24))
    add("properties", "spring.datasource.password={}", "hunter2" + base62(4))
    add("connection", "Server=db;User Id=bob;Password={};Encrypt=true", base62(10))
    add("sql", "CREATE USER bob IDENTIFIED BY '{}';", base62(10))
    add("sql of postgres", "ALTER ROLE bob WITH PASSWORD '{}';", base62(10))
    add("shadow", "bob:$6$" + "{}:19000:0:99999:7:::", base62(8) + "$" + base62(86))
    add("bcrypt", "bob:$2b$12$" + "{}", base62(53))
    add("set-cookie", "Set-Cookie: sid={}; Path=/; HttpOnly", base62(24))
    add("digest", 'Authorization: Digest username="bob", response="{}"', hexadecimal(32))
    add(
        "signature of aws",
        "Authorization: AWS4-HMAC-SHA256 Credential=" + "{}, Signature={}",
        f"AKIA{upper(16)}/20260101/x/s3/aws4_request",
        hexadecimal(64),
    )
    add(
        "kubernetes",
        "apiVersion: v1\nkind: Secret\nmetadata:\n  name: db\ndata:\n  user: {}\n  word: {}\n",
        base64_of(6),
        base64_of(9),
    )
    add("kubernetes in json", '{{"data": {{"user": "{}"}}, "kind": "Secret"}}', base64_of(9))
    add("otp", "otpauth://totp/x?secret={}&issuer=y", upper(32))
    add("colored", "\x1b[32mgh" + "p_{}\x1b[0m", base62(36))
    add("after an escape", '"first\\ngh' + 'p_{}"', base62(36))
    add(
        "mnemonic",
        "seed phrase: {}",
        " ".join(["zebra", "apple", "river", "stone", "cloud", "tiger"] * 2),
    )


tokens()
keys()
commands()
files()
