"""Register the key bindings of the screen: the user's bindings, dialogs and text editing."""

from collections.abc import Callable, Mapping

from prompt_toolkit.application import get_app
from prompt_toolkit.filters import Condition, vi_insert_mode, vi_mode, vi_navigation_mode
from prompt_toolkit.key_binding import KeyBindings, KeyPressEvent
from prompt_toolkit.key_binding.key_processor import KeyPress
from prompt_toolkit.key_binding.vi_state import InputMode
from prompt_toolkit.keys import Keys

from clew.fronts.terminal.choosing import EVERYWHERE, TREE
from clew.fronts.terminal.desk import PromptController
from clew.fronts.terminal.keys import Binding, Bindings, Context
from clew.fronts.terminal.stage import Stage
from clew.fronts.terminal.typed import NEWLINE

Do = Callable[[], object]
KEYS = "chat:keys"
SELECT = {
    "select:previous": "up",
    "select:next": "down",
    "select:tab": "tab",
    "select:back": "backtab",
    "select:left": "left",
    "select:right": "right",
    "select:accept": "enter",
    "select:cancel": "escape",
    "select:pageUp": "pageup",
    "select:pageDown": "pagedown",
    "sessions:everywhere": EVERYWHERE,
    "sessions:tree": TREE,
}

SIDES = ("select:left", "select:right")


class KeyState:
    """The conditions that decide which bindings are active, evaluated at each key press."""

    def __init__(self, stage: Stage) -> None:
        self.in_dialog = Condition(lambda: stage.takes_keys)
        self.is_typing = Condition(lambda: stage.dialog is not None and stage.dialog.is_typing)
        self.is_offering = Condition(lambda: stage.completion.is_open)
        # Whether Left and Right go to other questions; otherwise they move the cursor in a text.
        self.is_tabbed = Condition(
            lambda: (
                self.in_dialog()
                and stage.dialog is not None
                and stage.dialog.has_tabs
                and not stage.dialog.field.text
            )
        )
        self.in_sessions = Condition(
            lambda: stage.dialog is not None and stage.dialog.is_of_sessions
        )

    def of(self, context: Context) -> Condition:
        if context == "Select":
            return self.in_dialog
        if context == "Sessions":
            return Condition(lambda: self.in_dialog() and self.in_sessions())
        if context == "Autocomplete":
            return Condition(lambda: self.is_offering() and not self.in_dialog())
        if context == "Chat":
            return Condition(lambda: not self.in_dialog())
        return Condition(lambda: True)


def join(
    keys: KeyBindings,
    bindings: Bindings,
    stage: Stage,
    desk: PromptController,
    actions: Mapping[str, Do],
) -> None:
    """Register all key bindings.

    Bindings that are registered later take precedence: those of suggestions over those of the
    prompt, and those of dialogs over all others.
    """
    state = KeyState(stage)
    in_chat = state.of("Chat")

    @keys.add(Keys.BracketedPaste, filter=in_chat, eager=True)
    def _paste(event: KeyPressEvent) -> None:
        desk.paste(event.data)

    @keys.add("c-h", filter=in_chat & (~vi_mode | vi_insert_mode), eager=True)
    def _backspace(_: KeyPressEvent) -> None:
        stage.prompt.delete_before()

    @keys.add(NEWLINE.value)
    def _nothing(_: KeyPressEvent) -> None:
        """Ignore the Newline key where it has no binding, so that it is not treated as a letter."""

    @keys.add(Keys.Any, filter=state.in_dialog & ~state.is_typing, eager=True)
    def _letter(event: KeyPressEvent) -> None:
        event.key_processor.feed_multiple(stage.pressed(event.key_sequence[0]), first=True)

    for letter in "wW":
        keys.add("c", letter, filter=in_chat & vi_navigation_mode)(_change_word)
    for binding in sorted(bindings.bound, key=lambda binding: ORDER.index(binding.context)):
        counts = state.is_tabbed if binding.target in SIDES else state.of(binding.context)
        if binding.target == KEYS and len(binding.spelled) == 1:
            # Anywhere else, the character is text.
            counts = Condition(lambda: stage.prompt.is_empty and not stage.takes_keys)
        _bind(keys, binding, counts, actions, desk.line, stage.press)


ORDER: tuple[Context, ...] = ("Global", "Chat", "Autocomplete", "Select", "Sessions")


def _bind(
    keys: KeyBindings,
    binding: Binding,
    counts: Condition,
    actions: Mapping[str, Do],
    send: Callable[[str], object],
    press: Callable[[str], object],
) -> None:
    if binding.target.startswith("/"):

        def do() -> object:
            return send(binding.target)

    elif binding.target in SELECT:

        def do() -> object:
            return press(SELECT[binding.target])

    else:
        do = actions[binding.target]

    @keys.add(*binding.keys, filter=counts, eager=len(binding.keys) == 1)
    def _do(_: KeyPressEvent) -> None:
        do()


def _change_word(event: KeyPressEvent) -> None:
    """Make `cw` in vim mode keep the space after the word, as it does in vim."""
    end = "e" if event.key_sequence[1].key == "w" else "E"
    at_space = event.current_buffer.document.current_char.isspace()
    count = str(event.arg) if event.arg > 1 else ""
    keys = f"d{count}{event.key_sequence[1].key}i" if at_space else f"c{count}{end}"
    event.key_processor.feed_multiple([KeyPress(key) for key in keys], first=True)


def leave_insert() -> bool:
    """Leave vim's insert mode; return whether it was active."""
    app = get_app()
    if not vi_insert_mode():
        return False
    buffer, state = app.current_buffer, app.vi_state
    buffer.cursor_position += buffer.document.get_cursor_left_position()
    state.input_mode = InputMode.NAVIGATION
    return True
