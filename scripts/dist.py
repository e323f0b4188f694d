"""Build what is released: wheel, source archive, single file, and the list of components.

`make dist` runs this module and writes to dist/. Everything is built twice and must be equal to the
byte. The licenses of all components must be in `LICENSES`.
"""

import hashlib
import json
import os
import shutil
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from clew.version import VERSION
from scripts import single_file

ROOT = Path(__file__).parents[1]
DIST = ROOT / "dist"
LOCK = ROOT / "locks" / "core.txt"
BIN = Path(sys.executable).parent
# Licenses that a program under the MIT license can be distributed with.
LICENSES = {"MIT", "BSD-2-Clause", "BSD-3-Clause", "Apache-2.0", "MPL-2.0", "PSF-2.0", "ISC"}
# What packages with older metadata say, as SPDX identifiers.
SPELLINGS = {
    "License :: OSI Approved :: MIT License": "MIT",
    "License :: OSI Approved :: BSD License": "BSD-3-Clause",
    "License :: OSI Approved :: Apache Software License": "Apache-2.0",
    "License :: OSI Approved :: Mozilla Public License 2.0 (MPL 2.0)": "MPL-2.0",
    "BSD": "BSD-3-Clause",
}


def run(*command: str | Path) -> str:
    done = subprocess.run(
        [str(word) for word in command],
        cwd=ROOT,
        capture_output=True,
        text=True,
        encoding="utf-8",
        check=False,
    )
    if done.returncode:
        sys.exit(f"{command[0]} failed with {done.returncode}:\n{done.stdout}{done.stderr}")
    return done.stdout


def build_packages(folder: Path) -> list[Path]:
    """Build the wheel and the source archive."""
    run(
        BIN / "uv", "build", "--quiet", "--no-build-isolation", "--no-create-gitignore",
        "--python", sys.executable, "--out-dir", folder, ROOT,
    )  # fmt: skip
    return sorted(folder.iterdir())


def build_all(folder: Path, wheels: Path) -> list[Path]:
    """Build everything that is compared between two builds."""
    packages = build_packages(folder)
    (wheel,) = (path for path in packages if path.suffix == ".whl")
    single_file.write(folder / "clew.pyz", wheel, wheels)
    return sorted(folder.iterdir())


def list_components(wheel: Path, target: Path) -> None:
    """Write the components that an installation consists of, as CycloneDX, and check licenses."""
    with tempfile.TemporaryDirectory() as name:
        run(sys.executable, "-m", "venv", "--without-pip", name)
        python = Path(name, "bin", "python")
        install = (BIN / "uv", "pip", "install", "--quiet", "--python", python, "--no-deps")
        run(*install, "--require-hashes", "-r", LOCK)
        run(*install, wheel)
        run(
            BIN / "cyclonedx-py", "environment", "--output-reproducible", "--of", "JSON",
            "--pyproject", ROOT / "pyproject.toml", "--gather-license-texts",
            "-o", target, python,
        )  # fmt: skip
    refused = list(find_refused_licenses(json.loads(target.read_text("utf-8"))))
    if refused:
        target.unlink()
        sys.exit("\n".join(["licenses that scripts/dist.py does not allow:", *refused]))


def find_refused_licenses(components: dict[str, Any]) -> Iterator[str]:
    """Yield the components that have no license of `LICENSES`."""
    for component in components["components"]:
        found = set(name_licenses(component))
        if not found & LICENSES:
            yield f"  {component['name']} {component['version']}: {', '.join(found) or 'none'}"


def name_licenses(component: dict[str, Any]) -> Iterator[str]:
    for row in component.get("licenses", ()):
        inner = row.get("license", {})
        said = row.get("expression") or inner.get("id") or inner.get("name") or ""
        yield SPELLINGS.get(said, said)


def main() -> int:
    shutil.rmtree(DIST, ignore_errors=True)
    DIST.mkdir()
    os.environ.setdefault("SOURCE_DATE_EPOCH", "315532800")  # the first time that zip files know
    with tempfile.TemporaryDirectory() as name:
        wheels, again = Path(name, "wheels"), Path(name, "again")
        again.mkdir()
        single_file.download(LOCK, wheels)
        built = build_all(DIST, wheels)
        for first, second in zip(built, build_all(again, wheels), strict=True):
            if first.read_bytes() != second.read_bytes():
                sys.exit(f"{first.name}: two builds differ")
    (wheel,) = DIST.glob("*.whl")
    list_components(wheel, DIST / f"clew-{VERSION}.cdx.json")
    lines = []
    for path in sorted(DIST.iterdir()):
        digest = hashlib.sha256(path.read_bytes()).hexdigest()
        lines.append(f"{digest}  {path.name}\n")
        print(f"{path.stat().st_size / 1e6:7.2f} MB  {path.relative_to(ROOT)}")
    (DIST / "SHA256SUMS").write_text("".join(lines), "utf-8")
    count = len(zipfile.ZipFile(wheel).namelist())
    print(f"two builds are equal; {count} files in the wheel; see dist/SHA256SUMS")
    return 0


if __name__ == "__main__":
    sys.exit(main())
