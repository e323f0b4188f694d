"""Bash's reading of a line against the grammar's: which commands would run, with which words.

Owns the comparison. One bash reads many lines; every command is a function that writes its words
down. A line with `&&` or `||` is read twice, with commands that succeed and with commands that fail,
so that both sides are met. Nothing real runs, so that millions of lines can be compared.
"""

import re
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path

from clew.permissions.grammar import Unread, read_line
from clew.permissions.shell import Script
from clew.permissions.words import Word
from tests.fuzz.box import Box, wait

BLANKS = " \t\n"
NAME = re.compile(r"[A-Za-z0-9_.:+,@%^\[-]+")
AFTER_TIME = re.compile(r"(?:time|-p|--|!)\Z|\w+(?:\[.*\])?\+?=", re.S)
# Stands for a line end in what bash writes down; no generated line has it.
LINE_END = "\ue00a"
MARK = re.compile(r"C(\d+):(\d+)")
KEEP = frozenset({"eval", "builtin", "return"})

READER = r"""
exec 2>/dev/null 250>>/box/words
cd "$1" || exit 9
set -f
# In one write, because the programs of a pipeline write at the same time: printf would write each
# line on its own. With the line's number, because a process substitution may outlive its line.
rec() { builtin printf '%s\0' "C$line_number:$#" "${@//$'\n'/LINE_END}" >&250; return $status; }
command_not_found_handle() { rec "$@"; }
while IFS= builtin read -r -d '' -u 200 name; do
  builtin eval "function $name { rec '$name' \"\$@\"; }"
done 200</box/names
# What a here-document says is part of the words around it.
cat() {
  if (($# == 0)); then
    while IFS= builtin read -r row; do builtin printf '%s\n' "$row"; done
  fi
  rec cat "$@"
}
HOME='~' PWD=. line_number=0
while IFS= builtin read -r -d '' -u 200 line; do
  (
    builtin exec 200<&-
    status=0; builtin eval "$line"
    if [[ $line == *'&&'* || $line == *'||'* ]]; then status=1; builtin eval "$line"; fi
  ) </dev/null >/dev/null 2>&1
  line_number=$((line_number + 1))
  if ((line_number % 50 == 0)); then builtin printf '%d\n' "$line_number" >/box/at; fi
done 200</box/lines
builtin printf 'end\n' >/box/at
""".replace("LINE_END", LINE_END)


Known = tuple[set[str], list[re.Pattern[str]]]


def known_words(script: Script) -> Known:
    """The commands of a line as bash would pass their words; what depends on variables may be anything.

    At the head of a pipeline `time` is a keyword, and what follows is a command of its own; behind
    a pipe it is a program.
    """
    texts: set[str] = set()
    patterns: list[re.Pattern[str]] = []
    for command in script.commands:
        words = list(command.words)
        add_words(words, texts, patterns)
        if words[0].raw == "time":
            while len(words) > 1 and AFTER_TIME.match(words[0].raw):
                del words[0]
            add_words(words, texts, patterns)
    return texts, patterns


def add_words(words: list[Word], texts: set[str], patterns: list[re.Pattern[str]]) -> None:
    if not any(word.dynamic for word in words):
        texts.add("".join(f"{word.text}\0" for word in words))
        return
    parts = [
        r"(?:[^\x00]*\x00)*" if word.dynamic else re.escape(word.text) + r"\x00" for word in words
    ]
    patterns.append(re.compile("".join(parts), re.S))


def evaluates(script: Script) -> bool:
    """Whether a line hands text to the shell once more; no such line is ever allowed."""
    return any(KEEP & {word.text for word in command.words} for command in script.commands)


class Comparison:
    """Compares readings, many lines at a time."""

    def __init__(self, box: Box) -> None:
        self.box = box
        listed = subprocess.run(
            ["bash", "-c", "compgen -b"], check=True, capture_output=True, encoding="utf-8"
        )
        self.builtins = set(listed.stdout.split()) - KEEP

    def differences(self, lines: Sequence[str]) -> list[tuple[str, str]]:
        """The lines that bash reads otherwise than the grammar, each with what bash would run."""
        held: list[tuple[str, Script]] = []
        for line in lines:
            script = read_line(line.strip(BLANKS))
            if not isinstance(script, Unread) and not evaluates(script):
                held.append((line, script))
        names = {c.words[0].text for _, script in held for c in script.commands}
        names = {n for n in names | self.builtins if NAME.fullmatch(n) and n not in KEEP}
        found = []
        records = self.read_by_bash([line for line, _ in held], names)
        for number, (line, script) in enumerate(held):
            texts, patterns = known_words(script)
            for words in records.get(number, ()):
                if words not in texts and not any(p.fullmatch(words) for p in patterns):
                    found.append((line, words.replace("\0", " ").strip()))
                    break
        return found

    def read_by_bash(self, lines: Sequence[str], names: set[str]) -> dict[int, dict[str, None]]:
        with tempfile.TemporaryDirectory(dir=self.box.folder) as name:
            folder = Path(name)
            folder.chmod(0o777)
            (folder / "lines").write_bytes(b"".join(line.encode() + b"\0" for line in lines))
            (folder / "names").write_bytes(b"".join(n.encode() + b"\0" for n in sorted(names)))
            for file in ("words", "at"):
                (folder / file).touch()
                (folder / file).chmod(0o666)
            wait(self.box.start(folder, READER, programs=False), folder / "at", still_s=20)
            data = (folder / "words").read_bytes().decode("utf-8", "replace")
        return records_of(data.replace(LINE_END, "\n").split("\0"))


def records_of(data: list[str]) -> dict[int, dict[str, None]]:
    """The commands of each line, as their words with a NUL after each."""
    records: dict[int, dict[str, None]] = {}
    place = 0
    while place < len(data):
        mark = MARK.fullmatch(data[place])
        place += 1
        if mark is not None:
            number, count = int(mark[1]), int(mark[2])
            words = data[place : place + count]
            place += count
            records.setdefault(number, {})["".join(f"{word}\0" for word in words)] = None
    return records
