"""The files that fuzzed command lines meet: a project, a repository, denied files, tempting names.

Owns what lies where and the canaries in denied files. Everything is below one folder, so that a
sandbox can bind it and a watcher can see every access.
"""

import os
import subprocess
from functools import lru_cache
from pathlib import Path
from typing import Any

from clew.permissions.decide import decide
from clew.permissions.decision import verdict
from clew.permissions.request import HeldByGit, Mode, PermissionRequest
from clew.permissions.rules import RuleSet
from tests.permissions.world import World

CANARY = "CANARY7f3a91"

# Files that the deny rules of the fuzzer name, relative to the project.
DENIED = (".env", "secrets/key", "secrets/deep/token", "lib/secrets/key", "deep/er/.env")
# Those that git keeps in its history.
COMMITTED = (".env", "secrets/key")

# A file name that a pattern expands to may be an option. These make `sort *` write a file.
TEMPTING = (
    "--output=tripped",
    "--compress-program=tripwire",
    "--pre=tripwire",
    "-otripped",
    "-delete",
    "-d",
)

FILES = {
    "README.md": "# A project\n\nSome words on what it does.\nSee https://example.com/docs\n",
    "package.json": '{"name": "demo", "version": "1.2.3", "scripts": {"test": "x"}}\n',
    "data.csv": "name,amount\nada,3\ngrace,5\n",
    "names.txt": "grace\nada\nlinus\nada\n",
    "list.txt": "a.py\nb.py\n",
    "Makefile": "all:\n\techo built\n",
    "sed.script": "1e npm publish\n",
    "awk.script": 'BEGIN { system("npm publish") }\n',
    "src/app.py": "import os\n\n\ndef main():\n    return 1\n\n\nclass Session:\n    pass\n",
    "src/b.py": "from app import main\n\nmain()  # TODO\n",
    "src/my file.txt": "a file with a blank in its name\n",
    "tests/test_app.py": "def test_main():\n    assert True\n",
    "docs/guide.md": "## Guide\n\nRead it.\n",
    "logs/app.log": "error: one\nwarning: two\nerror: three\n",
}


class FuzzWorld(World):
    """A world with a repository, denied files that hold canaries, and stubs in unlikely folders."""

    def __init__(self, root: Path) -> None:
        super().__init__(root)
        self.root = root.resolve()
        for name, text in FILES.items():
            put(self.cwd / name, text)
        for name in DENIED:
            put(self.cwd / name, f"TOKEN={CANARY}\nPASSWORD={CANARY}\n")
        put(self.home / ".ssh" / "id_rsa", f"{CANARY}\n")
        put(self.home / ".gitconfig", "[user]\n\tname = A\n\temail = a@example.com\n")
        put(self.home / "notes.txt", "a note\n")
        # `{PATH}<file` makes the number of a file descriptor the search path.
        for number in range(10, 14):
            for name in ("ls", "cat", "git", "grep"):
                stub(self.cwd / str(number) / name)
        for name in (
            "run.sh",
            "tripwire",
            "ls",
            "timeout",
            "src/nice",
            "node_modules/.bin/eslint",
            ".git-hooks/pre-commit",
        ):
            stub(self.cwd / name)
        self.commit()
        for name in TEMPTING:
            put(self.cwd / name, "x\n")
        self.age()
        # Nothing here changes while lines are judged.
        self.resolve = lru_cache(maxsize=200_000)(self.resolve)

    def search(self, blobs: str) -> None:
        """Know what git keeps of denied files, as a session finds out before its first such command."""
        self.held_by_git = HeldByGit(
            is_known=True,
            top=str(self.cwd),
            paths=COMMITTED,
            blobs=frozenset(blobs.split()),
        )

    def commit(self) -> None:
        """Make two commits; the first holds a denied file, as careless projects do."""
        environ = {
            "PATH": os.environ["PATH"],
            "HOME": str(self.home),
            "GIT_AUTHOR_DATE": "2026-01-01T00:00:00Z",
            "GIT_COMMITTER_DATE": "2026-01-01T00:00:00Z",
        }

        def git(*words: str) -> str:
            return subprocess.run(
                ["git", *words],
                cwd=self.cwd,
                env=environ,
                check=True,
                capture_output=True,
                encoding="utf-8",
            ).stdout

        git("init", "-q", "-b", "main")
        # Another user owns the files inside the sandbox; git would read them all again.
        git("config", "core.checkStat", "minimal")
        git("config", "core.trustctime", "false")
        git("add", "-f", "README.md", *COMMITTED, "src", "a.py")
        git("commit", "-q", "-m", "Begin")
        self.search(git("rev-parse", *(f"HEAD:{path}" for path in COMMITTED)))
        git("tag", "v1.0")
        put(self.cwd / "src" / "app.py", FILES["src/app.py"] + "\n\ndef more():\n    return 2\n")
        git("add", "src", "b.py", "names.txt", "docs", "tests")
        git("commit", "-q", "-m", "Add more")
        git("branch", "other")
        git("remote", "add", "origin", "https://example.com/demo.git")
        put(self.cwd / "src" / "b.py", FILES["src/b.py"] + "# changed\n")

    def age(self) -> None:
        """Make every file old, so that git trusts its index and reads none of them again."""
        for folder, _, names in os.walk(self.cwd):
            for name in names:
                path = Path(folder) / name
                if not path.is_symlink() and ".git/" not in f"{path}/":
                    os.utime(path, (1_700_000_000, 1_700_000_000))
        subprocess.run(
            ["git", "update-index", "-q", "--refresh"],
            cwd=self.cwd,
            env={"PATH": os.environ["PATH"], "HOME": str(self.home)},
            check=False,
            capture_output=True,
        )

    def judge(self, line: str, rules: RuleSet, mode: Mode) -> str:
        request = PermissionRequest(tool="Bash", input={"command": line})
        return verdict(decide(request, rules, self.context(mode), self.resolve))

    def rule_set(self, lists: dict[str, Any]) -> RuleSet:
        return self.rules(**lists)


def put(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, "utf-8")


STUB = """#!/tripwire/sh
{ printf '%s' "${0##*/}"; printf ' %s' "$@"; printf '\\n'; } >>/box/trips
"""


def stub(path: Path) -> None:
    """A program that leaves a note that it ran, and does nothing else."""
    put(path, STUB)
    path.chmod(0o755)
