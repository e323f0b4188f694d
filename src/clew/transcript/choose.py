"""Which session a person means: the newest of a folder, an id, a title, or a file.

Looks at names, ends and titles only; nothing is loaded. A folder's name can stand for two paths, so
the `cwd` that the entries carry has the last word.
"""

from pathlib import Path

from clew.messages.errors import SessionError
from clew.transcript.light import Outline, is_uuid, outlines
from clew.transcript.paths import canonical, find_session, project_dir, projects_dir


def newest(home: Path, cwd: str) -> Outline | None:
    """The session of this folder that was written last; empty files and other folders' are passed."""
    here = canonical(cwd)
    folder = project_dir(home, cwd)
    return next((o for o in outlines(folder) if o.cwd in (None, here, cwd)), None)


def named(home: Path, cwd: str, name: str, *, asked: str = "--resume ") -> Path:
    """The transcript that `name` means; raises `SessionError` if there is none, or more than one."""
    if name.endswith(".jsonl"):
        path = Path(cwd, name).absolute()
        if not path.is_file():
            raise SessionError(f"{asked}{name}: there is no such file")
        return path
    if is_uuid(name):
        found = find_session(home, name)
        here = [path for path in found if path.parent == project_dir(home, cwd)]
        if not found:
            raise SessionError(
                f"{asked}{name}: no such session below {projects_dir(home)}; "
                "`clew sessions list --all` shows what there is"
            )
        return (here or found)[0]
    return by_title(home, cwd, name, asked=asked)


def by_title(home: Path, cwd: str, title: str, *, asked: str) -> Path:
    matching = [o.path for o in outlines(project_dir(home, cwd)) if o.title == title]
    if len(matching) == 1:
        return matching[0]
    if not matching:
        raise SessionError(
            f"{asked}{title!r}: neither a session's id nor the title of one of this folder; "
            "`clew sessions list` shows them"
        )
    ids = ", ".join(path.stem for path in matching)
    raise SessionError(f"{asked}{title!r}: several sessions have this title; name one: {ids}")
