"""Turn a server's form into questions for the user, and their answers into the server's format.

Forms are only for answers that are not secret, so a form that asks for a secret is not shown. For
secrets, the protocol provides another way: a web page of the server. A password that the user
entered in a form would go to a program that the model also talks to.

Decision: docs/decisions/136-trust-in-projects.md
"""

import re
from typing import Any

from clew.core.json_object import Json
from clew.parts.mcp.oauth_words import is_web
from clew.parts.mcp.protocol import as_object, as_text

MAX_FIELDS = 12
MAX_WORDS = 1000
MAX_OPTIONS = 8
EMPTY, DECLINE, VISITED = "Leave it empty", "Decline", "I visited the page"

# In case of doubt, a form is declined, even one about "token limits".
SECRET = re.compile(
    r"pass\s*-?_?(?:word|phrase|code)|secret|credential|api[\s_-]*key|access[\s_-]*key|private[\s_-]*key"
    r"|\btoken\b|_token|token_|bearer|\bpin\b|\bcvv\b|\bcvc\b|credit[\s_-]*card|card[\s_-]*number"
    r"|social[\s_-]*security|\bssn\b|\botp\b|seed[\s_-]*phrase|mnemonic",
    re.I,
)


def why_refused(params: Json) -> str:
    """Return why a request for input is declined without asking the user, or an empty string."""
    if params.get("mode") == "url":
        return "" if is_web(params.get("url")) else "the URL is not an http or https URL"
    fields = fields_of(params)
    if not fields or len(fields) > MAX_FIELDS:
        return f"a form must have 1 to {MAX_FIELDS} fields"
    for name, schema in fields.items():
        text = " ".join((name, as_text(schema.get("title")), as_text(schema.get("description"))))
        if SECRET.search(text) or schema.get("format") == "password":
            return f"the form asks for a secret ({name[:40]}); forms must not ask for secrets"
    if SECRET.search(as_text(params.get("message"))):
        return "the form asks for a secret; forms must not ask for secrets"
    return ""


def fields_of(params: Json) -> dict[str, Json]:
    properties = as_object(as_object(params.get("requestedSchema")).get("properties"))
    return {name: as_object(schema) for name, schema in properties.items()}


def make_questions(server: str, params: Json) -> list[Json]:
    """Return the questions to ask the user, each of which mentions the server's name."""
    message = as_text(params.get("message"))[:MAX_WORDS]
    head = f"[MCP server {server}] {message}".strip()
    if params.get("mode") == "url":
        text = (
            f"{head}\nThe server asks you to visit: {params['url']}\n"
            "Open this page only if you know why it is needed."
        )
        return [question(server, text, [VISITED, DECLINE], several=False)]
    asked_for = []
    for name, schema in fields_of(params).items():
        labels, several = options(schema)
        words = f"{head}\n{labelled(name, schema)}"
        asked_for.append(question(server, words, labels, several=several))
    return asked_for


def question(server: str, words: str, labels: list[str], *, several: bool) -> Json:
    return {
        "question": words,
        "header": server[:40],
        "options": [{"label": label, "description": ""} for label in labels],
        "multiSelect": several,
    }


def labelled(name: str, schema: Json) -> str:
    title = as_text(schema.get("title")) or name
    about = as_text(schema.get("description"))[:MAX_WORDS]
    return f"{title[:100]}{': ' + about if about else ''}"


def options(schema: Json) -> tuple[list[str], bool]:
    """Return the options that a form field offers, and whether several may be chosen."""
    if schema.get("type") == "array":
        return [*choices(as_object(schema.get("items"))), DECLINE], True
    if schema.get("type") == "boolean":
        return ["Yes", "No", DECLINE], False
    values = list(choices(schema))
    if values:
        return [*values, DECLINE], False
    default = schema.get("default")
    first = [str(default)[:100]] if isinstance(default, (str, int, float)) else []
    return [*first, EMPTY, DECLINE], False


def choices(schema: Json) -> dict[str, Any]:
    """Return the values that a schema lists, by label; empty if it lists none."""
    for key in ("oneOf", "anyOf"):
        listed = schema.get(key)
        if isinstance(listed, list):
            items = [as_object(item) for item in listed]
            return {
                as_text(item.get("title")) or str(item["const"]): item["const"]
                for item in items[: MAX_OPTIONS * 4]
                if "const" in item
            }
    listed = schema.get("enum")
    names = schema.get("enumNames")
    if not isinstance(listed, list):
        return {}
    titles = names if isinstance(names, list) and len(names) == len(listed) else listed
    return {str(t): value for t, value in zip(titles, listed, strict=True)}


def read_form(params: Json, answers: list[Any]) -> Json | None:
    """Return the completed form, or None if the user declined or left out a required field."""
    filled: Json = {}
    required = as_object(params.get("requestedSchema")).get("required")
    needed = required if isinstance(required, list) else []
    for (name, schema), answer in zip(fields_of(params).items(), answers, strict=True):
        if answer == DECLINE or answer is None:
            return None
        value = value_of(schema, answer)
        if value is not None:
            filled[name] = value
        elif name in needed:
            return None
    return filled


def value_of(schema: Json, answer: Any) -> Any:
    """Convert an answer to the type that the schema requires; None if it is empty or invalid."""
    if schema.get("type") == "array":
        options = choices(as_object(schema.get("items")))
        words = answer if isinstance(answer, list) else str(answer).split(", ")
        picked = [options[word] for word in words if word in options]
        return picked or None
    text = str(answer).strip()
    if not text or text == EMPTY:
        return None
    if schema.get("type") == "boolean":
        return {"yes": True, "no": False, "true": True, "false": False}.get(text.lower())
    options = choices(schema)
    if options:
        return options.get(text)
    if schema.get("type") in ("number", "integer"):
        return number(text, is_integer=schema["type"] == "integer")
    return text


def number(text: str, *, is_integer: bool) -> int | float | None:
    try:
        return int(text) if is_integer else float(text)
    except ValueError:
        return None
