"""Make a virtual environment, also where Debian's python3 came without its venv package.

Tried in turn: the standard module; `virtualenv`, if this Python can run it; Debian's own package,
if we are root. Standard library only: it runs before anything is installed.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path


def made(command: list[str], folder: Path) -> bool:
    try:
        subprocess.run(command, check=True, capture_output=True)
    except (OSError, subprocess.CalledProcessError):
        shutil.rmtree(folder, ignore_errors=True)
        return False
    return (folder / "bin" / "pip").exists()


def main(folder: Path) -> int:
    if sys.version_info < (3, 11):  # noqa: UP036 (whatever python3 is, it runs this file)
        print(
            f"Holdfast needs Python 3.11 or later, and this is {sys.version.split()[0]}; name another\n"
            "one: make setup PYTHON=python3.12",
            file=sys.stderr,
        )
        return 1
    if (folder / "bin" / "pip").exists():
        return 0
    venv = [sys.executable, "-m", "venv", str(folder)]
    if made(venv, folder) or made([sys.executable, "-m", "virtualenv", str(folder)], folder):
        return 0
    if os.geteuid() == 0 and shutil.which("apt-get"):
        quiet = {"check": False, "stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
        subprocess.run(["apt-get", "update"], **quiet)  # type: ignore[call-overload]
        subprocess.run(["apt-get", "install", "-y", "python3-venv"], **quiet)  # type: ignore[call-overload]
        if made(venv, folder):
            return 0
    print(
        "This Python cannot make virtual environments. Install the venv module first, for example\n"
        "  sudo apt-get install python3-venv\n"
        "or name another Python: make setup PYTHON=python3.12",
        file=sys.stderr,
    )
    return 1


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
