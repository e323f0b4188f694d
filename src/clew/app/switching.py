"""Another model, because somebody asked for it: hooks may keep it from being, and hear of it."""

from collections.abc import Callable

from clew.app.one_person import AskPerson
from clew.app.speaking import Speaking
from clew.catalog.models import Model
from clew.engine.deps import Granted, Question
from clew.hooks.run import Hooks
from clew.messages.errors import UserError
from clew.permissions.decision import Ask, Finding


class Switching:
    """What a skill changes while it is at work is taken back again, and is no switch."""

    def __init__(
        self, speaking: Speaking, hooks: Hooks, ask: AskPerson, new_id: Callable[[], str]
    ) -> None:
        self._speaking = speaking
        self._hooks = hooks
        self._ask = ask
        self._new_id = new_id

    async def to(self, name: str) -> Model:
        """Raises `UserError` that says why where a hook will not have it."""
        fields = {
            "from_model": self._speaking.model.id,
            "to_model": self._speaking.catalog.entry(name).id,
        }
        if fields["from_model"] == fields["to_model"]:
            return self._speaking.model
        said = await self._hooks.aside("PreModelSwitch", fields)
        refused = said.reason or said.block or said.halt or "no reason given"
        if said.permission in ("deny", "defer") or said.block is not None or said.halt is not None:
            raise UserError(f"a hook kept the model from being changed: {refused}")
        if said.permission == "ask" and not await self._may(fields, said.reason):
            raise UserError("the model stays as it is")
        chosen = self._speaking.choose(name)
        await self._hooks.aside("PostModelSwitch", fields)
        return chosen

    async def _may(self, fields: dict[str, str], why: str) -> bool:
        words = why or "a hook wants you to be asked"
        finding = Finding(subject="hook", verdict="ask", reason=words)
        block = {
            "type": "tool_use", "id": f"toolu_{self._new_id()}", "name": "SwitchModel",
            "input": fields,
        }  # fmt: skip
        title = f"change the model to {fields['to_model']}"
        question = Question(block=block, title=title, decision=Ask(findings=(finding,)), why=words)
        return isinstance(await self._ask(question), Granted)
