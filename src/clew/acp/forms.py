"""Questions of the model as one form that an editor shows, and what was filled in.

Pure. Used where an editor offers forms (`elicitation`); each question has a field of its own, and one
for a person's own words beside it.
"""

from collections.abc import Sequence
from typing import Any, TypeAlias

from clew.jsonrpc.wire import a_list, a_text, an_object

Json: TypeAlias = dict[str, Any]


def form_of(questions: Sequence[Json]) -> Json:
    """The schema of the form."""
    properties: Json = {}
    for number, asked in enumerate(questions, 1):
        choices = [
            {"const": str(option["label"]), "title": titled(option)} for option in asked["options"]
        ]
        field: Json = {"title": str(asked["question"])}
        if asked.get("multiSelect"):
            field |= {"type": "array", "items": {"anyOf": choices}}
        else:
            field |= {"type": "string", "oneOf": choices}
        properties[f"q{number}"] = field
        properties[f"q{number}_own"] = {"type": "string", "title": "Or in your own words"}
    return {"type": "object", "properties": properties}


def titled(option: Json) -> str:
    told = option.get("description")
    return f"{option['label']}: {told}" if told else str(option["label"])


def answers_of(questions: Sequence[Json], content: Any) -> dict[str, str]:
    """What was answered; a question that was left out has no answer."""
    given = an_object(content)
    answers: dict[str, str] = {}
    for number, asked in enumerate(questions, 1):
        chosen = given.get(f"q{number}")
        words = [one for one in a_list(chosen) if isinstance(one, str)] or [a_text(chosen)]
        said = [word for word in (*words, a_text(given.get(f"q{number}_own")).strip()) if word]
        if said:
            answers[str(asked["question"])] = ", ".join(said)
    return answers
