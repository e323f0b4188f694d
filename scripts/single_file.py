"""Pack clew and its dependencies into one file that Python runs: `clew.pyz`.

It holds what is common to all systems and, for each system and version of Python in `TARGETS`, the
compiled modules. The first start unpacks both to the cache folder of the user, because Python
can't import compiled modules from an archive; later starts only look for that folder.
"""

import hashlib
import io
import subprocess
import sys
import zipfile
from collections.abc import Mapping
from pathlib import Path

PYTHONS = ("3.11", "3.12", "3.13", "3.14")
# Name of a system as `sysconfig` and `platform` give it, and the tags of wheels that it can use.
SYSTEMS: Mapping[str, tuple[str, ...]] = {
    "linux-x86_64": ("manylinux_2_17_x86_64", "manylinux2014_x86_64", "manylinux_2_28_x86_64"),
    "linux-aarch64": ("manylinux_2_17_aarch64", "manylinux2014_aarch64", "manylinux_2_28_aarch64"),
    "darwin-arm64": ("macosx_11_0_arm64",),
}
# Zip files store times without a zone; this is the first that they know.
TIME = (1980, 1, 1, 0, 0, 0)

# The program in the archive. It must start fast: only modules that Python has loaded anyway, until
# something has to be unpacked.
MAIN = """\
import os
import sys

DIGEST = "{digest}"
CONTENT = {content}


def fail(text):
    sys.stderr.write("clew: " + text + "\\n")
    raise SystemExit(2)


def find_folder():
    cache = os.environ.get("XDG_CACHE_HOME") or ""
    if not os.path.isabs(cache):
        cache = os.path.join(os.path.expanduser("~"), ".cache")
    return os.path.join(cache, "clew", "pyz", DIGEST + "-" + sys.implementation.cache_tag)


def unpack(folder):
    import io
    import platform
    import shutil
    import tempfile
    import zipfile

    system = platform.system().lower() + "-" + platform.machine()
    version = "%d.%d" % sys.version_info[:2]
    part = version + "-" + system + ".zip"
    if sys.implementation.name != "cpython" or part not in CONTENT:
        fail(
            "this file has no modules for " + sys.implementation.name + " " + version + " on "
            + system + "; install the wheel instead, with pip, pipx or uv"
        )
    above = os.path.dirname(folder)
    try:
        os.makedirs(above, mode=0o700, exist_ok=True)
        fresh = tempfile.mkdtemp(dir=above)
    except OSError as error:
        fail("can't unpack to " + above + ": " + str(error.strerror) + "; set XDG_CACHE_HOME")
    try:
        with zipfile.ZipFile(os.path.abspath(sys.argv[0])) as archive:
            for name in ("common.zip", part):
                with zipfile.ZipFile(io.BytesIO(archive.read(name))) as inner:
                    inner.extractall(fresh)
        os.rename(fresh, folder)
    except OSError as error:
        shutil.rmtree(fresh, ignore_errors=True)
        # Another process may have been faster.
        if not os.path.isdir(folder):
            fail("can't unpack to " + folder + ": " + str(error.strerror) + "; set XDG_CACHE_HOME")


folder = find_folder()
if not os.path.isdir(folder):
    unpack(folder)
# A user who can write to this folder can run code as this user.
if hasattr(os, "getuid") and os.stat(folder).st_uid != os.getuid():
    fail(folder + " belongs to another user; delete it, or set XDG_CACHE_HOME")
sys.path[0] = folder

from clew.__main__ import main

raise SystemExit(main())
"""


def download(lock: Path, folder: Path) -> None:
    """Download the locked wheels of all targets, each into a folder of its name."""
    for version in PYTHONS:
        for system, tags in SYSTEMS.items():
            target = folder / f"{version}-{system}"
            platforms = [word for tag in tags for word in ("--platform", tag)]
            subprocess.run(
                [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps",
                 "--disable-pip-version-check", "--require-hashes", "-r", str(lock),
                 "--only-binary", ":all:", "--implementation", "cp", "--python-version", version,
                 *platforms, "-d", str(target)],
                check=True,
                stderr=subprocess.DEVNULL,
            )  # fmt: skip


def write(path: Path, clew: Path, wheels: Path) -> None:
    """Write the archive from the wheel of clew and the wheels of each target."""
    parts = {"common.zip": pack([clew, *find_wheels(wheels, pure=True)])}
    for folder in sorted(wheels.iterdir()):
        parts[f"{folder.name}.zip"] = pack(find_wheels(folder, pure=False))
    digest = hashlib.sha256(b"".join(parts.values())).hexdigest()[:16]
    main = MAIN.format(digest=digest, content=sorted(parts))
    archive = io.BytesIO()
    with zipfile.ZipFile(archive, "w") as file:
        add(file, "__main__.py", main.encode("utf-8"), zipfile.ZIP_DEFLATED)
        for name, content in sorted(parts.items()):
            add(file, name, content, zipfile.ZIP_STORED)
    path.write_bytes(b"#!/usr/bin/env python3\n" + archive.getvalue())
    path.chmod(0o755)


def find_wheels(folder: Path, *, pure: bool) -> list[Path]:
    """Return the wheels below a folder that are the same everywhere, or the others; each once."""
    found = {path.name: path for path in sorted(folder.rglob("*.whl"))}
    return [path for name, path in found.items() if name.endswith("-none-any.whl") == pure]


def pack(wheels: list[Path]) -> bytes:
    """Return the content of wheels as one archive."""
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as file:
        for wheel in wheels:
            with zipfile.ZipFile(wheel) as source:
                for name in sorted(source.namelist()):
                    if not name.endswith("/"):
                        add(file, name, source.read(name), zipfile.ZIP_DEFLATED)
    return packed.getvalue()


def add(file: zipfile.ZipFile, name: str, content: bytes, compression: int) -> None:
    """Add a file with a fixed time and mode, so that two builds are equal."""
    entry = zipfile.ZipInfo(name, TIME)
    entry.external_attr = 0o644 << 16
    file.writestr(entry, content, compression, 9)
