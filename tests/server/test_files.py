from __future__ import annotations

import subprocess
import sys


def limits_after(soft: int, hard: int, wanted: int) -> list[int]:
    """What `allow` says, and what the limit then is, in a process that starts with these."""
    program = (
        "import resource\n"
        "from holdfast.server.files import allow\n"
        f"resource.setrlimit(resource.RLIMIT_NOFILE, ({soft}, {hard}))\n"
        f"print(allow({wanted}), *resource.getrlimit(resource.RLIMIT_NOFILE))\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    return [int(word) for word in done.stdout.split()]


def test_the_limit_is_raised_to_what_is_wanted() -> None:
    assert limits_after(100, 1000, 500) == [500, 500, 1000]


def test_it_is_raised_as_far_as_the_system_lets_it() -> None:
    assert limits_after(100, 300, 500) == [300, 300, 300]


def test_it_is_never_lowered() -> None:
    assert limits_after(800, 1000, 500) == [800, 800, 1000]
