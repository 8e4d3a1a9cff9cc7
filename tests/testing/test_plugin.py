"""The plugin as users meet it: in a project of their own, in a pytest of its own."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.testing.project import TESTS, Project


@pytest.fixture
def project(tmp_path: Path) -> Project:
    return Project(tmp_path)


@pytest.mark.slow
def test_tests_of_a_project_pass_and_leave_nothing_behind(project: Project) -> None:
    (project.folder / "conftest.py").write_text(f"""
import psutil

def pytest_sessionfinish():
    here = "{project.folder}"
    words = [" ".join(p.info["cmdline"] or ()) for p in psutil.process_iter(["cmdline"])]
    print("servers left:", [w for w in words if "valkey.sock" in w and here in w])
""")
    code, said = project.pytest()
    assert code == 0, said
    assert "8 passed" in said
    assert "servers left: []" in said
    assert project.left_running() == []
    assert not (project.folder / ".holdfast").exists()


@pytest.mark.slow
def test_each_process_of_xdist_has_a_server_of_its_own(project: Project) -> None:
    project.tests(
        TESTS
        + """
@pytest.mark.parametrize("n", range(2))
def test_where(holdfast_server, worker_id, tmp_path_factory, n):
    import pathlib, time
    seen = pathlib.Path(__file__).parent / "seen"
    seen.mkdir(exist_ok=True)
    (seen / f"{worker_id}-{n}").write_text(holdfast_server)
    deadline = time.monotonic() + 30
    while len(list(seen.iterdir())) < 2:  # the other process is here too
        assert time.monotonic() < deadline
        time.sleep(0.01)
"""
    )
    code, said = project.pytest("-n", "2", "--dist", "each", "-k", "where and 0 or welcome")
    assert code == 0, said
    assert len({path.read_text() for path in (project.folder / "seen").iterdir()}) == 2
    assert project.left_running() == []


@pytest.mark.slow
def test_async_tests_leave_nothing_open_on_their_loops(project: Project) -> None:
    project.tests("""
import pytest
from shop import app, welcome

@pytest.fixture
async def sent(holdfast_kit):
    kit = holdfast_kit(app)
    return await welcome.send_async(1), kit

async def test_with_a_fixture(sent):
    handle, kit = sent
    await kit.run_async()
    assert await handle.result_async(0) == "hi 1"

async def test_alone(holdfast_app):
    @holdfast_app.task
    async def mine() -> None: ...

    await mine.send_async()

def test_plain(sent):
    handle, kit = sent
    kit.run()
    assert handle.result(0) == "hi 1"
""")
    code, said = project.pytest()
    assert code == 0, said
    assert "3 passed" in said


@pytest.mark.slow
def test_also_where_the_loop_is_gone_with_the_test_itself(project: Project) -> None:
    (project.folder / "pytest.ini").write_text("[pytest]\nfilterwarnings = error\n")
    (project.folder / "conftest.py").write_text("""
import asyncio

def pytest_pyfunc_call(pyfuncitem):
    asyncio.run(pyfuncitem.obj(pyfuncitem.funcargs["holdfast_kit"]))
    return True
""")
    project.tests("""
from shop import app, welcome

async def test_with_a_runner_of_its_own(holdfast_kit):
    kit = holdfast_kit(app)
    await welcome.send_async(1)
    assert (await kit.run_async()).succeeded == 1
""")
    code, said = project.pytest("-p", "no:asyncio")
    assert code == 0, said
    assert "1 passed" in said


@pytest.mark.slow
def test_a_second_kit_in_one_test_is_refused(project: Project) -> None:
    project.tests("""
from shop import app

def test_two(holdfast_kit):
    holdfast_kit(app)
    holdfast_kit(app)
""")
    code, said = project.pytest()
    assert code == 1
    assert "this test has a kit already, around <App of 1 tasks>" in said


@pytest.mark.slow
def test_what_a_failing_test_left_is_not_seen_by_the_next(project: Project) -> None:
    project.tests("""
from shop import app, welcome

def test_fails(holdfast_kit):
    kit = holdfast_kit(app)
    kit.clock.advance(1_000_000)
    welcome.send(1)
    raise RuntimeError("no")

def test_passes(holdfast_kit):
    import time
    kit = holdfast_kit(app)
    assert kit.sent() == []
    assert kit.queue("emails").stats().total == 0
    assert abs(kit.clock.now.timestamp() - time.time()) < 3600
    assert kit.run().total == 0
""")
    code, said = project.pytest()
    assert "1 failed, 1 passed" in said, said
    assert code == 1


@pytest.mark.slow
def test_who_does_not_use_it_does_not_pay_for_it(project: Project) -> None:
    (project.folder / "pytest.ini").write_text("[pytest]\n")
    project.tests("""
import sys

def test_light():
    assert "holdfast.testing.plugin" in sys.modules
    assert not [name for name in sys.modules if name.startswith(("redis", "holdfast.client"))]
""")
    code, said = project.pytest("-p", "no:asyncio")
    assert code == 0, said


@pytest.mark.slow
def test_the_kit_is_there_without_pytest() -> None:
    code = "import sys, holdfast.testing as t; t.Kit; sys.exit('pytest' in sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True)


@pytest.mark.slow
def test_fixtures_are_listed_with_what_they_are_for(project: Project) -> None:
    _, said = project.pytest("--fixtures", "-q")
    for name in ("holdfast_kit", "holdfast_app", "holdfast_server"):
        assert re.search(rf"{name}.* -- .*plugin\.py", said), said
