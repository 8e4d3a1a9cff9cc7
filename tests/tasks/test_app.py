"""An app that several threads use."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any

import holdfast


def test_a_task_can_be_defined_while_another_thread_asks_for_the_queues() -> None:
    class Growing(dict[str, Any]):
        """Whoever walks through it has another thread define a task meanwhile."""

        def values(self) -> Any:
            def walk() -> Iterator[Any]:
                for found in super(Growing, self).values():
                    yield found
                    if not defining:
                        defining.append(threading.Thread(target=app.task(queue="c"), args=(c,)))
                        defining[0].start()
                        defining[0].join(0.2)

            return walk()

    def c() -> None: ...

    app = holdfast.App()
    defining: list[threading.Thread] = []

    @app.task(queue="a")
    def a() -> None: ...

    @app.task(queue="b")
    def b() -> None: ...

    app.tasks = Growing(app.tasks)
    assert app.queues == ["a", "b"]
    defining[0].join()
    assert app.queues == ["a", "b", "c"]


def test_of_two_threads_that_define_a_task_of_one_name_one_is_told() -> None:
    meet = threading.Barrier(2, timeout=10)

    class Late(dict[str, Any]):
        """Both have looked whether there is one before either adds it."""

        def __contains__(self, name: object) -> bool:
            found = super().__contains__(name)
            meet.wait()
            return found

    def twice() -> None: ...

    app = holdfast.App()
    app.tasks = Late()
    refused: list[Exception] = []

    def define() -> None:
        try:
            app.task(twice)
        except holdfast.InvalidArgument as error:
            refused.append(error)

    threads = [threading.Thread(target=define) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    [said] = refused
    assert "there is a task 'twice' already" in str(said)
