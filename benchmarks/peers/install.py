"""A home for each peer below .peers/: a virtual environment of its own, or a folder of node modules.

Versions are pinned in requirements/; a home that was made from the same text by the same Python is
left as it is. A peer that cannot be installed does not stop the others: what went wrong is given
back as the reason why it is not measured.
"""

from __future__ import annotations

import platform
import shutil
import subprocess
import sys
from pathlib import Path

from benchmarks.peers.sides import OURS, REQUIREMENTS, Side

_MAKE_VENV = Path(__file__).parents[2] / "tools" / "make_venv.py"
_SECONDS = 300


def wanted(side: Side) -> Path:
    return REQUIREMENTS / (f"{side.name}.json" if side.node else f"{side.name}.txt")


def ready(side: Side) -> bool:
    stamp = side.home / ".ready"
    return side.name == OURS or (stamp.exists() and stamp.read_text() == _recipe(side))


def install(side: Side) -> str | None:
    """Make its home, if it is not there. None, or why it could not be made."""
    if ready(side):
        return None
    shutil.rmtree(side.home, ignore_errors=True)
    try:
        _node_modules(side) if side.node else _virtual_environment(side)
    except (OSError, subprocess.SubprocessError) as error:
        return _reason(error)
    (side.home / ".ready").write_text(_recipe(side))
    return None


def version(side: Side) -> str:
    """The pinned one of the peer itself."""
    text = wanted(side).read_text()
    if side.node:
        return text.partition(f'"{side.name}": "')[2].partition('"')[0]
    lines = (line.partition("==") for line in text.splitlines())
    return next(pin for name, _, pin in lines if name == side.name)


def _recipe(side: Side) -> str:
    made_by = "node" if side.node else f"Python {platform.python_version()}"
    return f"{made_by}\n{wanted(side).read_text()}"


def _virtual_environment(side: Side) -> None:
    _run(sys.executable, str(_MAKE_VENV), str(side.home))
    pip = [str(side.home / "bin" / "python"), "-m", "pip", "install", "-qq"]
    _run(*pip, "--disable-pip-version-check", "-r", str(wanted(side)))


def _node_modules(side: Side) -> None:
    side.home.mkdir(parents=True)
    shutil.copyfile(wanted(side), side.home / "package.json")
    # No lock file: it would name the place that packages came from.
    options = ("--no-audit", "--no-fund", "--no-package-lock", "--ignore-scripts")
    _run("npm", "install", *options, "--loglevel=error", "--prefix", str(side.home))


def _run(*command: str) -> None:
    subprocess.run(command, check=True, capture_output=True, text=True, timeout=_SECONDS)


def _reason(error: Exception) -> str:
    said = getattr(error, "stderr", None)
    lines = [line for line in str(said or error).splitlines() if line.strip()]
    return f"it could not be installed: {lines[-1].strip()[:200] if lines else error!r}"
