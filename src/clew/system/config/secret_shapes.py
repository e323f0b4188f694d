"""Formats of secrets that clew recognizes in addition to gitleaks' rules.

Each row contains the lower-case words with which a match can start, and an expression for what
follows, whose groups are the secret. Expressions are linear: every repetition is bounded or
possessive. `clew.system.config.secret_search` expands `<START>`, `<QUOTE>` and the like.
"""

import re
from collections import Counter
from functools import lru_cache
from itertools import pairwise
from math import log2
from typing import Literal, TypeAlias


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


# What may directly precede a secret: no word character, except the end of an escape, a color code
# or `%20`.
START = r"(?:(?<![A-Za-z0-9_])|(?<=\\[nrt])|(?<=%[0-9A-Fa-f]{2})|(?<=\dm)|(?<=\[[mK]))"
# A quotation mark as written in a shell, a program, nested JSON, HTML or a URL.
QUOTE = r"""(?:\\{0,7}["'`]|&quot;|&\#0?3[49];|&\#x2[27];|&apos;|\\u002[27]|%2[27])"""
GREATER = r"(?:>|&gt;|\\u003[eE])"
SPACE = r"(?:[ \t]|\\t|&nbsp;|%20)"
LINE_END = r"(?:\r?\n|\\r?\\n|\\n)"
# The characters of an unquoted value.
PLAIN = r"""[^\s"'`<>\\,;|&(){}\[\]]"""

# Token prefixes, which stay visible. At least this many characters follow, one of them a digit.
PREFIXES: tuple[tuple[int, str], ...] = (
    (
        10,
        "ghp_ gho_ ghu_ ghs_ ghr_ github_pat_ glpat- xoxa- xoxb- xoxc- xoxd- xoxe- xoxo- xoxp- xoxr-"
        " xoxs- xapp- npm_ pypi- hf_",
    ),
    (12, "sk-ant- sk-proj- sk-or- sk-svcacct- sk-admin- AKIA ASIA ABIA ACCA AIza"),
    (
        16,
        "gloas- gldt- glrt- glptt- glcbt- glft- glimt- glagent- glsoat- glffct- dckr_pat_ dckr_oat_ gsk_"
        " xai- r8_ figd_ figu_ figo_ sbp_ sb_secret_ sntrys_ sntryu_ vcp_ vca_ vci_ vck_ lin_api_ lin_oauth_"
        " ntn_ nvapi- tvly- pcsk_ lsv2_pt_ lsv2_sk_ phx_ rnd_ e2b_ sk_live_ sk_test_ sk_prod_ rk_live_"
        " rk_test_ rk_prod_ whsec_ tskey- SWMTKN-1- hvs. hvb. hvr. rzp_live_ rzp_test_ bkua_ CCIPAT_"
        " CCIPRJ_ dop_v1_ doo_v1_ dor_v1_ GOCSPX- ya29. ATATT3 ATCTT3 ATBB shpat_ shpca_ shppa_ shpss_"
        " PMAK- rdme_ pat-na1- pat-na2- pat-eu1- CFPAT- EZAK EZTK amzn.mws. sq0atp- sq0csp- pplx- glc_"
        " glsa_ api_org_ pscale_tkn_ pscale_pw_ pscale_oauth_ tfp_ shippo_live_ shippo_test_"
        " duffel_live_ duffel_test_ rubygems_ nfp_ nfc_ fo1_ fm1r_ fm2_ apify_api_ sgp_ dp.pt. dp.st. dp.ct."
        " dp.sa. dp.scim. dp.audit. cio_ key-live_ sl.u. PRIVATE-AI- FLWSECK- FLWSECK_TEST- dapi pul-"
        " cloudflare_ cfat_ cfut_ cfk_ ops_ pnu_ ico- A3T API-KEY- AGE-SECRET-KEY- AGE-PLUGIN- secret_ re_ EAA"
        " LTAI AQVN t1. ABSK AKCp dt0c01. dt0s01. fio-u- HRKU- NRAK- NRII- NRJS- xkeysib- xsmtpsib- SG."
        " mlsn. cal_live_ ctx7sk- jina_ fw_ sm_aat_ sm_pat_ sm_sat_ BSA",
    ),
)

# Tokens recognized by their format.
TOKENS: tuple[tuple[str, str], ...] = (
    ("eyj", r"<START>eyJ([A-Za-z0-9_-]{8,1000}+\.[A-Za-z0-9_-]{4,1000}+(?:\.[A-Za-z0-9_-]{0,2000}){0,3})"),
    ("eyj", r"<START>eyJ([A-Za-z0-9_+/-]{100,1000}+={0,2})"),
    ("bearer", r"(?i:bearer(?:\s|%20|\+){1,5}(?=[A-Za-z._~+/=-]{0,100}\d)([A-Za-z0-9._~+/=-]{16,1000}+))"),
    ("1//0", r"<START>1//0([A-Za-z0-9_-]{30,1000}+)"),
    ("key-", r"<START>key-([0-9a-f]{32}\b)"),
    (":aa", r"(?<=\d{8}):(AA[A-Za-z0-9_-]{33})(?![\w-])"),
    ("$", r"\$(?:2[abxy]\$\d\d|[156y]|7|apr1|sha1|argon2(?:id|i|d)|scrypt|pbkdf2[\w-]{0,12})\$([A-Za-z0-9./$=,+_-]{20,1000}+)"),
    ("{ssha", r"(?i:\{ssha\d{0,3}\})([A-Za-z0-9+/]{20,1000}+={0,2})"),
    ("discord", r"(?i:discord(?:app)?\.com/api/(?:v\d{1,2}/)?webhooks/\d{10,25}/)([\w-]{30,1000}+)"),
    ("hooks.", r"(?i:hooks\.(?:slack|zapier|chatwork)\.com/)([\w/-]{10,1000}+)"),
    ("webhook.office", r"(?i:webhook\.office(?:365)?\.com/)([\w/@-]{30,1000}+)"),
    ("api.tele", r"(?i:api\.telegram\.org/(?:file/)?bot\d{5,16}:)([\w-]{20,1000}+)"),
    ("ingest", r"(?i:ingest\.sentry\.io/)(\d{5,1000}+)"),
    ("swmtkn", r"(?i:swmtkn-\d-)([a-z0-9-]{20,1000}+)"),
    (":5432: :3306: :1433: :27017: :6379: :*:", r":[\d*]{1,5}:[\w*.-]{1,64}:[\w*.@-]{1,64}:([^\s:\"'\\]{3,200})(?=[\s\"'\\]|\Z)"),
    )  # fmt: skip

# Headers: the value extends to the end of the line or the closing quotation mark.
AUTHORIZATION = (
    r"""(?i:authorization)<QUOTE>?\s{0,5}(?:[:=,]|=>|%3A)\s{0,5}(?:%20|\+)?<QUOTE>?\s{0,3}(?:[bBrRfu]["'])?"""
    r"""(?:(?P<scheme>[A-Za-z][\w-]{1,30})(?:\s{1,5}|%20))?"""
    r"""(?P<value>(?:\w{1,30}=(?:"[^"\s:,]{0,500}"|\\"[^"\\\n]{0,500}\\"|[^\s"'\\,]{1,2000})(?:,[ \t]{0,3})?){1,12}"""
    r"""|[^\s"'`<>\\,;]{4,2000})"""
)
SCHEMES = _words(
    """
    basic bearer token digest apikey api-key negotiate ntlm hawk key aws4-hmac-sha256 oauth
    genie-key genie ssws jwt sso-key bot dpop pat
    """
)
COOKIE = (
    r"""(?i:cookie2?)(?:<QUOTE>?\s{0,3}(?::|=>)|<QUOTE>,)\s{0,3}<QUOTE>?(?P<name>[\w.$%-]{1,100})="""
    r"""(?P<value>[^\s"'`\\;]{3,4000}(?:;[ \t]{0,3}[\w.$%-]{1,100}=[^\s"'`\\;]{0,4000}){0,60})"""
)
COOKIE_OPTION = r"""-{1,2}(?:b|cookie)[ \t=]{0,3}<QUOTE>?(?P<name>[\w.$%-]{1,100})=(?P<value>[^\n"'`\\]{3,4000})"""
# Up to the last `@` before a slash or white space, because a password may contain `@`. A port
# number is not a password.
USERINFO = r"""://(?P<user>[^\s/:@"'`<>\\]{0,200}):(?P<value>(?![0-9]{1,5}/)[^\s/"'`<>\\]{1,400})@(?=[\w\[.$%{-])"""
USERINFO_SLASHES = r"""://(?P<user>[^\s/:@"'`<>\\]{0,200}):(?P<value>(?![0-9]{1,5}/)[^\s@"'`<>\\?#]{1,200})@(?=[\w\[.-]{1,100}(?::\d|/\w))"""
USERINFO_TOKEN = r"""://(?P<value>[^\s/:@"'`<>\\]{16,400})@(?=[\w\[.-])"""

# `-u name:password` of curl, wget, HTTPie and similar programs, also in a list of arguments.
USER_OPTION = (
    r"""-(?i:u(?:ser)?)(?:[ \t=]{0,4}|<QUOTE>,\s{0,20})(?P<quote><QUOTE>?)"""
    r"""(?P<user>[\w.@+$\\-]{1,100}):(?P<value>[^\s"'`|;&<>\\]{2,400}|(?<=["']..)[^"'\n\\]{2,400})"""
)
AUTH_OPTION = (
    r"""-a[ \t]{1,4}<QUOTE>?(?P<user>[\w.@+-]{1,100}):(?P<value>[^\s"'`|;&<>\\/]{3,400})"""
)
# Users and groups of containers, which are not credentials.
ACCOUNTS = _words(
    """
    root node nobody www-data nginx app staff users wheel daemon user postgres redis nogroup
    mysql deploy admin docker group gid uid
    """
)

# Programs whose short options take a secret: the words that start the match, and the rest of the
# command.
_WORDS = r"[^\n|;&]{0,300}?"
_SECRET = r"""(?:<QUOTE>,\s{0,20})?<QUOTE>?([^\s"'`|;&<>\\]{2,400})"""
COMMANDS: tuple[tuple[str, str], ...] = (
    ("mysql mariadb", rf"(?:mysql|mariadb)[\w-]{{0,20}}\s{_WORDS}\s<QUOTE>?-p(?!\s)<QUOTE>?([^\s\"'`|;&<>\\]{{2,400}})"),
    ("sshpass", rf"sshpass\s{_WORDS}-p[ \t=]{{0,3}}{_SECRET}"),
    ("mongo", rf"mongo[\w-]{{0,20}}\s{_WORDS}\s-p[ \t=]{{1,3}}{_SECRET}"),
    ("redis-cl", rf"redis-cli\s{_WORDS}(?:-a|--pass)[ \t=]{{1,3}}{_SECRET}"),
    ("ldap", rf"ldap[a-z]{{3,10}}\s{_WORDS}\s-w[ \t]{{0,3}}{_SECRET}"),
    ("smb rpcclien", rf"(?:smb\w{{3,10}}|rpcclient)\s{_WORDS}\s-U[ \t]{{0,3}}<QUOTE>?[\w.\\/-]{{1,80}}%{_SECRET}"),
    ("login", rf"login\s{_WORDS}\s-p[ \t=]{{0,3}}{_SECRET}"),
    ("vault", rf"vault\s+login\s+(?:-[\w=-]{{1,60}}\s+){{0,5}}{_SECRET}"),
    ("htpasswd", rf"htpasswd\s{_WORDS}-[a-zA-Z]{{0,6}}b[a-zA-Z]{{0,6}}\s+(?:-\w{{1,10}}\s+){{0,4}}\S{{1,200}}\s+\S{{1,100}}\s+{_SECRET}"),
    ("7z rar", rf"(?:7z[a-z]?|rar)\s{_WORDS}\s-h?p(?!\s){_SECRET}"),
    ("zip", rf"zip\s{_WORDS}-P[ \t]{{0,3}}{_SECRET}"),
    ("openssl", rf"openssl\s{_WORDS}(?:\bpass:|-[kK][ \t]+){_SECRET}"),
    ("ssh-keyg", rf"ssh-keygen\s{_WORDS}-[NP][ \t]{{0,3}}<QUOTE>?([^\s\"'`|;&<>\\]{{2,400}})"),
    ("sqlcmd bcp isql", rf"(?:sqlcmd|bcp|isql)\s{_WORDS}\s-P[ \t]{{0,3}}{_SECRET}"),
    ("lftp", rf"lftp\s{_WORDS}-u[ \t]{{0,3}}<QUOTE>?[\w.@-]{{1,80}},{_SECRET}"),
    ("secret", rf"secrets?\s+set\s+\w{{1,100}}\s{_WORDS}(?:-b|--body)[ \t=]{{1,3}}{_SECRET}"),
    ("_authtok", rf"_authToken<QUOTE>?[ \t]{{1,3}}{_SECRET}"),
    ("login", r"login(?:\s|\\[nt]){1,5}[^\s\\]{1,100}(?:\s|\\[nt]){1,10}(?:account\s{1,5}[^\s\\]{1,100}\s{1,5})?password\s{1,5}(?!=)([^\s\"'\\,;]{1,400})"),
    ("requirep mas", rf"(?:requirepass|masterauth)[ \t]{{1,5}}{_SECRET}"),
    ("identifi", r"(?:(?i:identified\s{1,5}with\s+\S{1,50}\s+(?:by|as))|IDENTIFIED\s+BY|identified\s+by(?=\s+'[^'\n]{0,100}\d))\s{1,5}(?i:password\s+)?<QUOTE>([^\"'`\n\\]{1,200})<QUOTE>"),
    ("echo printf", r"(?:echo|printf)\s{1,3}(?:-\w{1,3}\s{1,3}|<QUOTE>%s(?:\\n)?<QUOTE>\s{1,3}){0,3}<QUOTE>?(?:[\w.-]{1,60}:)?([^\s\"'`|;&<>\\$]{3,400})(?:\\n)?<QUOTE>?\s{0,3}\|\s{0,3}(?:sudo\s+(?:-\w\s+)?-S|chpasswd|sudo chpasswd|passwd|[^\n|;&]{1,200}(?:--password-stdin|--with-token|--passphrase-fd|--token-stdin|secret put|secret set|secrets create))"),
    ("mnemonic seed recovery", r"(?i:mnemonic|seed[ _-]?(?:phrase|words)?|recovery[ _-]?(?:phrase|words|code))<QUOTE>?\s{0,3}(?:[:=]|is)\s{0,3}<QUOTE>?((?:[a-z]{3,8}[ \t]){11,23}[a-z]{3,8})(?![a-z])"),
)  # fmt: skip
# A database password in an SQL statement.
SQL_PASSWORD = r"""(?i:password)\s{1,5}<QUOTE>([^"'`\n\\]{1,200})<QUOTE>"""

# A name and its value: `name: value` and `name = value` in programs, settings and data, elements
# and attributes, pairs in a list, options.
NAME_WORDS = ["passw", "passphra", "passcode", "pass=", "pass:", "userpass", "_pass", 'pass"', "pwd", "secret", "token", "key", "credenti", "creds", "auth", "jwt", "dsn", "sas", "_pat", "pat=", "cookie", "session", "connecti", "webhook", "sig=", "signatur", "psk", "bearer", "pass>", "pass'", "pass\\", "pass", "", "access_c"]  # fmt: skip
NAME_REST = r"[\w.$-]{0,80}+"
ASSIGNED = (
    r"(?P<close><QUOTE>)?(?:\\?\])?<SPACE>{0,12}"
    r"(?P<type>:<SPACE>{0,2}[\w&<>\[\]|.?]{1,30}<SPACE>{0,3}(?==[^=]))?"
    r"(?P<op>=>|:=|={1,3}|!==?|\?\?=|\?=|\+=|:(?!:)|->|%3[AaDd])"
)
ELEMENT = r"""(?P<close><QUOTE>)?[ \t]{0,3}(?P<op><GREATER>)(?=[^\s<])"""
ELEMENT_REST = r"[^<>&\\]{1,400}+(?:</|&lt;/|<\\?/|\\u003[cC])"
PAIRED = (
    r"(?P<close><QUOTE>)?\s{0,3},?(?:\s|\\[nrt]){0,40}<QUOTE>?(?i:value|default|defaultValue|content|val)<QUOTE>?"
    r"\s{0,3}(?P<op>[:=])"
)
LISTED = r"(?P<close><QUOTE>)\s{0,3}(?P<op>,)\s{0,40}(?=[bruBRU]?<QUOTE>)"
SPACED = r"(?P<close><QUOTE>)?(?P<op>(?:[ \t]|\\\r?\n|\\{3,15}[nr]){1,20})(?=[^\s|;&<>-])"
# What may appear between the operator and the value.
BEFORE_VALUE = (
    r"(?:[ \t]|\\t|%20){0,20}(?:(?:<LINE_END>|\\\r?\n)(?:[ \t]|\\t){0,40}(?=<QUOTE>))?(?:[|>][+-]?\d?[ \t]{0,5}<LINE_END>[ \t]{1,40})?"
    r"(?:[bBrRuUfF@]{0,2}(?=[\"'])|(?:[\w.:]{1,40}\()(?=[\"']))?"
)

# Private keys: the first line, the last line, and the form of a key that was cut off.
KEY_BEGIN = r"-{4,5} ?BEGIN [A-Z0-9 _-]{0,60}?PRIVATE KEY(?: BLOCK)?(?: ?-{4,5})?"
KEY_END = r"-{4,5} ?END [A-Z0-9 _-]{0,60}?PRIVATE KEY(?: BLOCK)?(?: ?-{4,5})?"
KEY_CUT = (
    r"(?:(?:\s|\\[nrt\\]|[\"'+,|>#*:\d]){0,40}"
    r"(?:(?:Proc-Type|DEK-Info|Version|Comment|Hash|Charset):[^\n\\\"]{0,200}|[A-Za-z0-9+/=_-]{16,4000})){1,400}"
    r"(?:(?:\s|\\[nrt]){1,4}[A-Za-z0-9+/=]{4,80}(?=\s|\\|[\"']|\Z))?"
    r"|(?:\s|\\[nr]){0,4}[A-Za-z0-9+/=]{1,80}\s{0,4}\Z"
)
PUTTY = r"(?i:private-lines:\s{0,3}\d{1,4})"
PUTTY_END = r"(?i:private-mac:(?:\s|\\[nr]){0,5}[0-9a-f]{0,64})"
LONGEST_KEY_CHARS = 20_000

# A Kubernetes manifest: every value of these blocks.
MANIFEST = r"(?i:kind)<QUOTE>?:[ \t]{0,3}<QUOTE>?Secret\b(?!\w)"
MANIFEST_BLOCK = r"""(?m:^([ \t]{0,40})(?:data|stringData):[ \t]{0,20}\r?\n((?:\1[ \t]{1,40}[^\n]{0,4000}\n?){1,200}))"""
MANIFEST_VALUE = r"""(?m:^[ \t]{1,80}["']?[\w.-]{1,200}["']?:[ \t]{1,10}(?![|>])([^\s#][^\n]{0,4000})|^[ \t]{4,80}([A-Za-z0-9+/=]{8,4000})$)"""
MANIFEST_OBJECT = r"<QUOTE>(?:data|stringData)<QUOTE>:\s{0,5}\{([^{}]{0,20000})\}"
MANIFEST_MEMBER = r"<QUOTE>:\s{0,5}<QUOTE>([^\s\"'\\{}]{2,4000})<QUOTE>"
MANIFEST_ESCAPED = r"(?:data|stringData):\\{1,7}n((?:[ ]{1,40}[\w.-]{1,200}:[ ]{1,9}[^\\\"\n]{1,4000}(?:\\{1,7}n)?){1,200})"
MANIFEST_PART = r":[ ]{1,9}([^\\\"\n]{1,4000})"
MANIFEST_BLOCKS = (
    (MANIFEST_BLOCK, MANIFEST_VALUE),
    (MANIFEST_OBJECT, MANIFEST_MEMBER),
    (MANIFEST_ESCAPED, MANIFEST_PART),
)
MANIFEST_CHARS = 20_000

# A run of characters that may be an unnamed random value.
RUN = r"(?<![A-Za-z0-9_+/=~.-])[A-Za-z0-9_+/=~.-]{24,}+"


# Decide whether the value after a name is a secret, by the words of the name and the value's form.


Kind: TypeAlias = Literal["password", "token", "key", "weak key", ""]


def _name_words(text: str) -> frozenset[str]:
    return frozenset(text.split())


_NAME_WORD = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+")
# Words that may follow the word that indicates the kind of value.
_SUFFIXES = _name_words(
    """
    value plain plaintext raw prod production live test dev staging default str string text base
    hex env var old new backup
    """
)
_PASSWORDS = (
    "password", "passwd", "passphrase", "passcode", "pwd", "userpass", "dbpass", "authpass",
)  # fmt: skip
_TOKENS = (
    "token", "secret", "secrets", "credential", "credentials", "creds", "jwt", "bearer", "psk",
)  # fmt: skip
_TOKEN_WORDS = frozenset(["auth", "authorization", "pat", "dsn", "sas", "cookie", "apikey"])
_TOKEN_PAIRS = frozenset([("connection", "string"), ("webhook", "url"), ("access", "code")])
_KEYS = ("apikey", "secretkey", "accesskey", "privatekey", "authkey", "licensekey", "accountkey")
_KEY_WORDS = _name_words(
    """
    api access secret private auth signing encryption master account shared preshared service
    client app application license consumer deploy admin root subscription write hmac crypto aes
    jwt webhook integration storage sdk project ssh django flask rails cookie
    """
)
_WEAK = frozenset(["key", "sig", "signature", "salt", "seed"])
# Words that mark a token or key as not secret.
_HARMLESS = _name_words(
    """
    public pub primary foreign sort partition cache idempotency publishable page next
    continuation cursor max min num input output stop eos bos pad unk mask cls sep hot unique
    lookup i18n
    """
)

_PLACEHOLDER = re.compile(
    r"""(?ix)
    \$(?-i:[A-Z_][A-Z0-9_]*|[a-z_]+|[0-9@*\#?])["']?$ | \$[{(] | %\w+%$ | %[sdrv](?:[:/@,]%[sdrv])*$ | <[^>]*>?$ | \{\{ | \{[\w.\[\]"']*\}?$
    | [*x.\u2022\u2026_-]+$ | x{6,} | @\w+@$ | \[\w*\]?$
    | (?:your|insert|enter|replace|change|add|put)(?:[ _-].*|me|here|this|it)?$
    | (?:true|false|null|nil|none|undefined|yes|no|on|off|default|empty|todo|tbd|example|placeholder)$
    | \[?(?:masked|redacted|hidden|removed|filtered|omitted|secret)\]?$
    | (?:os|process|import|env|self|this|args|opts|options|config|cfg|settings|ctx|request|req|params)[.\[]
    """
)
_TYPES = _name_words(
    """
    str string bytes text int integer number bool boolean char object any void varchar value
    optional required password passwd token key secret auth file stdin prompt bearer basic flag
    option name type hidden input field label username user email login and or is the for with
    from that this are was not must can will const final private static readonly unknown never
    passphrase path which when where has have used invalid missing incorrect wrong options flags
    args arguments parameter parameters as in on of if be by to an it its via then than into
    should may instead expired failed error empty plaintext encrypted hash hashed
    """
)
_LABEL = re.compile(
    r"(?i)\b(?:password|passphrase|must|please|enter|your|required|invalid|incorrect|forgot|reset|"
    r"confirm|is|the|at least|does|not|for|to|of|and|or)\b"
)
_CODE = re.compile(r"[A-Za-z_$][\w$]*(?:[(\[{<]|(?:\.|::|->|\?\.)[A-Za-z_$])")
_IDENTIFIER = re.compile(r"[A-Za-z_][A-Za-z_]*")
_CALLED = re.compile(r"[\w.]{0,80}[(\[]")
# The name of another field, in camel case or with underscores.
_FIELD = re.compile(r"[A-Za-z]+(?:_[A-Za-z]+)+|[a-z]+(?:[A-Z][a-z]+)+|[A-Z][A-Z_]+")
_PATTERN = re.compile(r"[\[\](){}\\^*|<>]")
_ALPHABET = "abcdefghijklmnopqrstuvwxyz"
_HUMP = re.compile(r"[A-Z]?[a-z]{3,}|[A-Z]{3,}")
_HEX = re.compile(r"(?:0x)?[0-9a-fA-F]+")
_UUID = re.compile(r"[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}")
_PATH = re.compile(r"(?:[~.]{0,2}/|[A-Za-z]:\\|[a-z][a-z0-9+.-]*://)")
_PARTS = re.compile(r"[A-Za-z0-9]+")
# A part of an identifier, not of a random value: a word, words in camel case, a short number.
_WORD = re.compile(r"(?:[A-Z]*[a-z]*(?:[A-Z]+[a-z]+)*[A-Z]{0,3}\d{0,3}|[A-Z]+\d{0,3}|v?\d{1,8})")

LONGEST_CHARS = 2_000
LOOKED_AT_CHARS = 200
LEAST_PASSWORD = 3
LEAST_TOKEN = 8
LEAST_KEY = 16
# In camel case names, every fifth character differs in kind from the character before it; in random
# values, every second character does.
RANDOM_CHANGES = 0.34


@lru_cache(1_000)
def kind_of(name: str) -> Kind:
    """Return the kind of secret that the words of a name indicate, or an empty string."""
    words = [word.lower() for word in _NAME_WORD.findall(name[-80:])]
    while len(words) > 1 and words[-1] in _SUFFIXES:
        words.pop()
    if not words:
        return ""
    last = words[-1]
    if last.endswith(_PASSWORDS) or last in ("pass", "pw"):
        return "password"
    if not _HARMLESS.isdisjoint(words):
        return ""
    if last.endswith(_TOKENS) or last in _TOKEN_WORDS or tuple(words[-2:]) in _TOKEN_PAIRS:
        return "token"
    if last.endswith(_KEYS) or (last == "key" and not _KEY_WORDS.isdisjoint(words)):
        return "key"
    return "weak key" if last in _WEAK or words[-2:] == ["session", "id"] else ""


def is_secret(name: str, value: str, *, is_quoted: bool, is_sure: bool = False) -> bool:
    """Return whether the value that follows a name is a secret.

    With `is_sure`, only a literal value can follow the name, as after an option.
    """
    kind = kind_of(name)
    if not kind or _PLACEHOLDER.match(value) or value.lower() in _TYPES:
        return False
    if _FIELD.fullmatch(value) and kind_of(value):
        return False
    if kind == "password":
        return _is_password(value, is_quoted=is_quoted, is_sure=is_sure)
    if len(value) < LEAST_TOKEN or any(c.isspace() for c in value) or _PATTERN.search(value):
        return False
    if _ALPHABET in value.lower() or (
        _PATH.match(value) and (is_wordy(value) or not is_random(value))
    ):
        return False
    if (
        not (is_quoted or is_sure)
        and (_CODE.match(value) or value[0].isalpha())
        and is_wordy(value)
    ):
        return False
    if kind == "weak key":
        return (
            len(value) > LEAST_KEY
            and not _HEX.fullmatch(value)
            and not _UUID.fullmatch(value)
            and is_dense(value)
        )
    if kind == "token" and is_sure:
        return True
    return is_random(value) or (
        # Letters only: too long for one word, and not several words.
        len(value) >= 20 and value.isascii() and value.isalpha() and measure_changes(value) != 0.0
    )


def _is_password(value: str, *, is_quoted: bool, is_sure: bool) -> bool:
    if len(value) < LEAST_PASSWORD:
        return False
    if is_quoted or is_sure:
        spaced = any(c.isspace() for c in value)
        if spaced and (len(value) > 100 or _LABEL.search(value) or value[0].isupper()):
            return False
        return not (is_quoted and _LABEL.fullmatch(value))
    if _CODE.match(value) and (not is_random(value) or is_wordy(value)):
        return False
    return _IDENTIFIER.fullmatch(value) is None or (
        len(value) >= LEAST_TOKEN and value.isalpha() and value.islower()
    )


def is_called(text: str, at: int) -> bool:
    """Return whether the name at this position is the name of a function that is called."""
    return _CALLED.match(text, at) is not None


def is_random(value: str) -> bool:
    """Return whether a value looks random: some part of it is neither a word nor a number."""
    value = value[:LOOKED_AT_CHARS]
    if len(value) < LEAST_TOKEN or measure_entropy(value) < (3.0 if len(value) >= 16 else 2.5):
        return False
    parts = _PARTS.findall(value)
    if all(_WORD.fullmatch(part) for part in parts):
        return measure_changes(value) >= RANDOM_CHANGES and len(parts) * 12 <= len(value)
    return True


def is_wordy(value: str) -> bool:
    """Return whether a value consists mostly of words, as identifiers do."""
    value = value[:LOOKED_AT_CHARS]
    humps = [hump for hump in _HUMP.findall(value) if _VOWEL.search(hump)]
    return sum(map(len, humps)) * 5 >= sum(map(str.isalnum, value)) * 3


_VOWEL = re.compile(r"[aeiouyAEIOUY]")


def is_dense(value: str) -> bool:
    """Return whether a value mixes lower case, upper case and digits as random values do."""
    return (
        any(map(str.islower, value))
        and any(map(str.isupper, value))
        and any(map(str.isdigit, value))
        and measure_changes(value) >= RANDOM_CHANGES
        and measure_entropy(value) >= 3.7
    )


def measure_changes(value: str) -> float:
    """Return the share of adjacent characters of different kinds (lower, upper case, digit)."""
    kinds = [2 if c.isdigit() else c.isupper() for c in value if c.isalnum()]
    return sum(a != b for a, b in pairwise(kinds)) / max(len(kinds) - 1, 1)


def measure_entropy(value: str) -> float:
    """Return the Shannon entropy of a string in bits per character."""
    size = len(value)
    return -sum(n / size * log2(n / size) for n in Counter(value).values())
