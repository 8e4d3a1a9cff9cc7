"""What `make check` says of the revision of the Lua."""

from __future__ import annotations

import pytest

from holdfast.engine import library
from tools.generate import releases, revision_problem

SHIPPED = {"0.1.0": "1:aaa", "0.2.0": "2:bbb"}
CHANGES = "# Changes\n\n## 0.3.0\n\n## 0.2.0 (a date)\n\n## 0.1.0\n"


@pytest.mark.parametrize(
    ("now", "fine"),
    [
        ("2:bbb", True),
        ("3:ccc", True),
        ("4:ccc", True),
        ("2:ccc", False),
        ("1:ccc", False),
        ("3:bbb", False),
    ],
)
def test_the_revision_is_raised_when_the_lua_has_changed(now: str, fine: bool) -> None:
    assert (revision_problem(now, SHIPPED, CHANGES) is None) == fine


def test_it_says_what_to_set_it_to() -> None:
    assert "library.py to 3" in str(revision_problem("2:ccc", SHIPPED, CHANGES))


def test_a_release_that_was_not_noted_is_missed() -> None:
    assert "0.2.0" in str(revision_problem("2:bbb", {"0.1.0": "1:aaa"}, CHANGES))


def test_the_revision_of_today_is_right() -> None:
    shipped = releases()
    assert list(shipped)[:4] == ["0.1.0", "0.2.0", "0.3.0", "0.4.0"]
    assert revision_problem(library.version(), shipped, CHANGES) is None
