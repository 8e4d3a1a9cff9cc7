"""Many at once: one server, and never an error for who comes or goes at the wrong moment."""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path

import pytest

from holdfast import embedded
from tests.embedded.people import User, answers, processes_of, running, script
from tests.servers import wait_until


@pytest.mark.slow
def test_many_processes_that_start_at_once_share_exactly_one_server(home: Path) -> None:
    with ExitStack() as stack:
        users = [stack.enter_context(User(home)) for _ in range(6)]
        assert len({user.joined() for user in users}) == 1
        assert len(processes_of(home)) == 2
        assert (home / "valkey.log").read_text().count("Server initialized") == 1
        for user in users:
            user.kill()


@pytest.mark.slow
def test_who_joins_while_the_server_is_being_stopped_gets_the_next_one(home: Path) -> None:
    with User(home) as user:
        user.joined()
        run = running(home).run
        (home / "stop").write_text(run)
        # It still answers for a moment, but whoever took it then would lose it.
        wait_until(lambda: embedded.status(home).state == "stopping", 5, "stopping")
        with embedded.join(home) as membership:
            assert running(home).run != run
            assert answers(membership.url)


@pytest.mark.slow
def test_who_joins_while_the_last_user_leaves_always_gets_a_server(home: Path) -> None:
    # Each goes away for about as long as the keeper takes to notice: some of the joins fall into
    # every moment of a shutdown.
    source = """
import sys, time
from pathlib import Path
from holdfast import embedded
from holdfast.embedded import server
home, offset = Path(sys.argv[1]), float(sys.argv[2])
for turn in range(8):
    with embedded.join(home) as membership:
        assert server.ping(membership.socket, 5) == "ready"
    time.sleep(0.09 + turn * 0.02 + offset)
print("fine", flush=True)
"""
    churners = [script(source, home, offset) for offset in ("0", "0.01")]
    assert [churner.communicate(timeout=60)[0] for churner in churners] == ["fine\n"] * 2
    starts = (home / "valkey.log").read_text().count("Server initialized")
    assert starts > 1, "the server never ended in between: nothing was tested"
