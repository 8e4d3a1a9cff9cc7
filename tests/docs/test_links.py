"""What the documents point at is there."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest

from holdfast.engine import library
from holdfast.settings import Settings

ROOT = Path(__file__).parents[2]
DOCUMENTS = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")])


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda d: str(d.relative_to(ROOT)))
def test_links_lead_somewhere(document: Path) -> None:
    for target in re.findall(r"\]\(([^)#]+)[^)]*\)", document.read_text("utf-8")):
        assert (document.parent / target).exists(), f"{document.name} links to {target}"


def test_every_setting_is_documented() -> None:
    text = (ROOT / "docs/settings.md").read_text("utf-8")
    for name in Settings.__dataclass_fields__:
        assert f"| `{name}` |" in text


def test_the_map_names_files_that_exist() -> None:
    text = (ROOT / "ARCHITECTURE.md").read_text("utf-8")
    source = ROOT / "src/holdfast"
    for path in re.findall(
        r"`((?:engine|client|embedded|cli|docs|lua)/[\w/.]+\.(?:py|lua|md))`", text
    ):
        places = [ROOT / path, source / path, source / "engine" / path]
        assert any(place.exists() for place in places), path


def test_versions_agree() -> None:
    import holdfast

    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    assert project["version"] == holdfast.__version__
    assert library.REVISION >= 1
