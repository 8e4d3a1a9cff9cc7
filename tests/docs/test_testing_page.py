"""The page on testing: its tests are run as they stand."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.testing.project import Project

PAGE = Path(__file__).parents[2] / "docs/testing.md"


@pytest.mark.slow
def test_the_page_on_testing(tmp_path: Path) -> None:
    project = Project(tmp_path)
    blocks = re.findall(r"```python\n# (\w+\.py)\n(.*?)```", PAGE.read_text("utf-8"), re.DOTALL)
    assert [name for name, _ in blocks] == ["shop.py", "test_shop.py"]
    for name, text in blocks:
        (tmp_path / name).write_text(text)
    code, said = project.pytest()
    assert code == 0, said
    assert "7 passed" in said
