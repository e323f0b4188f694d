"""clew's reading of words is compared with the words that bash passes on."""

import random
import subprocess
from pathlib import Path

import pytest

from clew.permissions.shell import split

LINES = 800


def piece(chance: random.Random) -> str:
    """A part of a word in one of the shell's ways of quoting."""

    def text(signs: str, least: int = 0) -> str:
        return "".join(chance.choice(signs) for _ in range(chance.randint(least, 3)))

    return chance.choice(
        [
            text("ab.-/~", 1),
            "'" + text('ab $;&|<>(){}*?[]#~"\\`\n') + "'",
            '"' + text("ab ;&|<>()*?'#~") + '"',
            chance.choice(['"\\$a"', '"\\`"', '"\\\\"', '"\\""', '"\\a"', '"a\\\nb"']),
            "\\" + chance.choice("ab $;&|<>(){}*?[]#~\"'\\`"),
            "$'" + text("ab01\\nxtu").rstrip("\\") + "'",
            chance.choice(["$'\\x41'", "$'\\101'", "$'\\u0041'", "$'\\''", "$'\\e'", "$'\\cB'"]),
        ]
    )


@pytest.mark.e2e
@pytest.mark.parametrize("seed", range(8))
def test_a_word_that_is_known_is_the_word_bash_passes_on(tmp_path: Path, seed: int) -> None:
    chance = random.Random(seed)
    lines: list[str] = []
    expected: list[list[bytes]] = []
    for _ in range(LINES):
        words = [
            "".join(piece(chance) for _ in range(chance.randint(1, 4)))
            for _ in range(chance.randint(1, 3))
        ]
        line = "printf '%s\\0' " + " ".join(words)
        script = split(line)
        if script.problems or len(script.commands) != 1 or script.redirects:
            continue
        read = script.commands[0].words[2:]
        if not any(w.dynamic or w.glob or w.tilde or "\1" in w.text for w in read):
            lines.append(f"{line}; printf '\\1'")
            expected.append([w.text.encode() for w in read])
    assert len(lines) > LINES / 3
    done = subprocess.run(
        ["bash", "--norc", "-c", "\n".join(lines)],
        cwd=tmp_path,
        env={"PATH": "/usr/bin:/bin", "HOME": str(tmp_path), "LC_ALL": "C.UTF-8"},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        timeout=60,
        check=True,
    )
    found = [command.split(b"\0")[:-1] for command in done.stdout.split(b"\1")[:-1]]
    assert found == expected
