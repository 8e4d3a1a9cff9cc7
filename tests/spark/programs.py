"""Programs for tests that look at what a machine has: Javas of any age, and a PATH without one."""

from __future__ import annotations

import io
import os
import shlex
import shutil
import subprocess
import sys
from collections.abc import Mapping
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path

import pytest

import holdfast
from holdfast.cli.main import main
from holdfast.spark import session

SOURCE = Path(holdfast.__file__).parents[1]
# Variables that change what Spark does: of the developer's own shell, or set for the Spark of the
# tests that ran before in this process.
_OURS = {
    "JAVA_HOME",
    "LOG4J_CONFIGURATION_FILE",
    "PYSPARK_DRIVER_PYTHON",
    "PYSPARK_PYTHON",
    "SPARK_CONF_DIR",
    "SPARK_HOME",
    "SPARK_LOCAL_IP",
}
_TOOLS = ("bash", "sh", "env", "dirname", "cat", "ps", "rm", "chmod", "ls", "id", "uname")


def java(home: Path, version: str, *, module: bool = True, lives: Path | None = None) -> Path:
    """A home with a `java` that answers as that version does, and else says what it was given."""
    knows_modules = not version.startswith("1.")
    program = home / "bin" / "java"
    program.parent.mkdir(parents=True)
    program.write_text(
        "#!/bin/sh\n"
        'if [ "$1" = -XshowSettings:properties ]; then\n'
        f"  [ {knows_modules} = True ] || [ $2 = -version ] || exit 1\n"
        f"  echo {shlex.quote(f'    java.home = {lives or home}')} >&2\n"
        f"  echo '    java.version = {version}' >&2\n"
        f"  echo java.base@{version}\n"
        + (f"  echo jdk.incubator.vector@{version}\n" if module else "")
        + "else\n"
        '  for word in "$@"; do echo "<$word>"; done\n'
        "fi\n"
    )
    program.chmod(0o755)
    return home


def path_without_java(folder: Path) -> str:
    """A PATH with what Spark's scripts call, and no more."""
    folder.mkdir()
    for tool in _TOOLS:
        found = shutil.which(tool)
        assert found, f"no {tool} on this machine"
        (folder / tool).symlink_to(found)
    return str(folder)


def shell(**changes: str) -> dict[str, str]:
    """The variables of this process, with Holdfast on the path and nothing about Spark but how to start
    Java."""
    mine = {name: value for name, value in os.environ.items() if name not in _OURS}
    return mine | {"PYTHONPATH": str(SOURCE), "COLUMNS": "500"} | changes


def spark_shell(**changes: str) -> dict[str, str]:
    """The same with what Spark's own programs need, also if a Spark of this process has set some of it
    for itself."""
    with pytest.MonkeyPatch.context() as clean:
        for name in _OURS:
            clean.delenv(name, raising=False)
        return shell(**session.environment(), **changes)


def python(
    code: str, env: Mapping[str, str], *words: str, timeout: float = 240
) -> subprocess.CompletedProcess[str]:
    """Runs a program in a process of its own, to its end."""
    return subprocess.run(
        [sys.executable, "-c", code, *words],
        env=dict(env),
        capture_output=True,
        text=True,
        timeout=timeout,
        check=False,
    )


def command_line(
    env: Mapping[str, str], *words: str, without: tuple[str, ...] = ()
) -> subprocess.CompletedProcess[str]:
    """`holdfast WORDS`, as if the packages in `without` were not installed."""
    code = (
        f"import sys; sys.modules.update(dict.fromkeys({without!r}))\n"
        "from holdfast.cli.main import main; sys.exit(main(sys.argv[1:]))"
    )
    return python(code, env, *words)


def command_line_here(
    env: Mapping[str, str], *words: str, without: tuple[str, ...] = ()
) -> subprocess.CompletedProcess[str]:
    """The same in this process, which has imported all that takes seconds: for commands that end before
    Spark would start."""
    out, err = io.TextIOWrapper(io.BytesIO(), "utf-8", write_through=True), io.StringIO()
    with pytest.MonkeyPatch.context() as other, redirect_stdout(out), redirect_stderr(err):
        for name in os.environ.keys() - env.keys():
            other.delenv(name)
        for name, value in env.items():
            other.setenv(name, value)
        for package in without:
            other.setitem(sys.modules, package, None)
        status = main(words)
        out.seek(0)
    return subprocess.CompletedProcess(words, status, out.read(), err.getvalue())
