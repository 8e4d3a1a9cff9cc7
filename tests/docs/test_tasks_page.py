"""The code on the page on tasks runs as it stands, with the worker that the page starts."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest

PAGE = Path(__file__).parents[2] / "docs/tasks.md"


@pytest.mark.slow
def test_the_page_on_tasks(tmp_path: Path) -> None:
    shop, *rest = re.findall(r"```python\n(.*?)```", PAGE.read_text("utf-8"), re.DOTALL)
    [command] = re.findall(r"```sh\n(.*?)```", PAGE.read_text("utf-8"), re.DOTALL)
    (tmp_path / "shop.py").write_text(shop)
    (tmp_path / "rest.py").write_text("from shop import *\n" + "\n".join(rest))
    environment = {k: v for k, v in os.environ.items() if not k.startswith("HOLDFAST")} | {
        "HOLDFAST_HOME": str(tmp_path / "home"),
        "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
    }
    with (tmp_path / "worker.log").open("wb") as log:
        worker = subprocess.Popen(
            ["bash", "-c", f"exec {command}"], cwd=tmp_path, env=environment, stdout=log, stderr=log
        )
        try:
            done = subprocess.run(
                [sys.executable, "-W", "error", "rest.py"],
                cwd=tmp_path,
                env=environment,
                capture_output=True,
                text=True,
                timeout=60,
                check=False,
            )
        finally:
            worker.send_signal(signal.SIGTERM)
            status = worker.wait(60)
    assert done.returncode == 0, done.stderr + (tmp_path / "worker.log").read_text()
    assert done.stdout == "sent hi to 42\n"
    assert status == 0
