"""Prometheus metrics of tasks: a middleware that counts, and a page that shows it (extra `metrics`).

    holdfast.telemetry.metrics.start(app, 9100)

What happens to tasks is counted when it happens; what there is (running, held, in queues) is looked up
when somebody scrapes, so that no count of it can drift. docs/telemetry.md has the table of names. One
process has one page: Prometheus's way of joining several processes' numbers in files is turned down,
since a worker that is killed leaves its files behind and they go on being reported.
"""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

from holdfast import forks
from holdfast.errors import InvalidArgument, Unsupported
from holdfast.message import STATES
from holdfast.tasks.context import Context
from holdfast.tasks.middleware import Middleware, Sending
from holdfast.telemetry.depths import Depths
from holdfast.telemetry.tallies import Tally

if TYPE_CHECKING:
    from prometheus_client import CollectorRegistry
    from prometheus_client.metrics_core import Metric

    from holdfast.tasks.app import App

# Messages that name no task this worker knows.
UNKNOWN = "(unknown)"


class Metrics(Middleware):
    """Counts what happens to an app's tasks. `registry`: prometheus_client's own if not given, so that a
    program's other metrics are on the same page. `app`: whose queues are looked at where no worker runs
    in this process."""

    def __init__(self, app: App | None = None, registry: CollectorRegistry | None = None) -> None:
        try:
            import prometheus_client as prometheus
        except ImportError:
            raise Unsupported(
                "metrics need prometheus-client: pip install 'holdfast[metrics]'"
            ) from None
        self._app = app
        # Replaced as a whole: workers come and go on their loops, and the page is made in a thread.
        self._workers: tuple[Any, ...] = ()
        self._depths = Depths()
        self._tallies: dict[tuple[str, str], Tally] = {}
        # Tasks are sent from any thread, and may end in several.
        self._lock = threading.Lock()
        forks.watch(self)
        self._page: Any = None
        self.registry = registry or prometheus.REGISTRY
        try:
            self.registry.register(self)
        except ValueError as error:
            raise InvalidArgument(
                f"this registry has metrics of Holdfast already: {error}; one Metrics per process is "
                "enough, or give each a registry of its own"
            ) from error

    def forked(self) -> None:
        """In the child of a fork: nobody here holds the lock."""
        self._lock = threading.Lock()

    # ---- counted --------------------------------------------------------------------------

    def sending(self, sending: Sending) -> None:
        with self._lock:
            self._of(sending.task, sending.queue).sent += 1

    def started(self, context: Context) -> None:
        if context.attempt == 1:
            sent = int(context.id.partition("-")[0]) / 1000
            with self._lock:
                # Two clocks, the server's and ours.
                self._of(context.task, context.queue).waited.add(max(time.time() - sent, 0.0))

    def succeeded(self, context: Context, value: Any) -> None:
        self._ended(context, "succeeded")

    def retried(self, context: Context, error: BaseException, delay: float) -> None:
        self._ended(context, "retried")

    def buried(self, context: Context, error: BaseException | str) -> None:
        self._ended(context, "buried")

    def snoozed(self, context: Context, delay: float) -> None:
        self._ended(context, "snoozed")

    def discarded(self, context: Context, why: str) -> None:
        self._ended(context, "discarded")

    def cancelled(self, context: Context) -> None:
        self._ended(context, "cancelled")

    def lost(self, context: Context) -> None:
        self._ended(context, "lost")

    def _ended(self, context: Context, outcome: str) -> None:
        with self._lock:
            tally = self._of(context.task or UNKNOWN, context.queue)
            tally.outcomes[outcome] = tally.outcomes.get(outcome, 0) + 1
            # What is lost may have been counted as something else before.
            if context.started and outcome != "lost":
                tally.ran.add(time.monotonic() - context.started)

    def _of(self, task: str, queue: str) -> Tally:
        found = self._tallies.get((task, queue))
        if found is None:
            found = self._tallies[task, queue] = Tally()
        return found

    # ---- looked up ------------------------------------------------------------------------

    def worker_started(self, worker: Any) -> None:
        self._app = worker.app
        with self._lock:
            self._workers = (*self._workers, worker)

    def worker_stopped(self, worker: Any) -> None:
        with self._lock:
            self._workers = tuple(each for each in self._workers if each is not worker)

    def describe(self) -> Iterable[Metric]:
        """Names only; the registry asks, to see whether any is taken."""
        return self._of_tasks({})

    def collect(self) -> Iterator[Metric]:
        with self._lock:
            tallies = {of: tally.copy() for of, tally in self._tallies.items()}
        yield from self._of_tasks(tallies)
        yield from self._of_workers()
        yield from self._of_queues()

    def _of_tasks(self, tallies: dict[tuple[str, str], Tally]) -> Iterator[Metric]:
        from prometheus_client.core import CounterMetricFamily as Counter
        from prometheus_client.core import HistogramMetricFamily as Histogram

        labels = ("task", "queue")
        total = Counter(
            "holdfast_tasks", "Attempts that ended, by how.", None, (*labels, "outcome")
        )
        sent = Counter("holdfast_sent", "Tasks sent by this process.", labels=labels)
        ran = Histogram("holdfast_task_seconds", "How long an attempt ran.", labels=labels)
        waited = Histogram(
            "holdfast_task_wait_seconds", "From sending to the first attempt.", labels=labels
        )
        for of, tally in tallies.items():
            for outcome, n in tally.outcomes.items():
                total.add_metric((*of, outcome), n)
            if tally.sent:
                sent.add_metric(of, tally.sent)
            for spread, histogram in ((tally.ran, ran), (tally.waited, waited)):
                buckets = spread.cumulative()
                if buckets[-1][1]:
                    histogram.add_metric(of, buckets, spread.sum)
        yield from (total, sent, ran, waited)

    def _of_workers(self) -> Iterator[Metric]:
        from prometheus_client.core import GaugeMetricFamily as Gauge

        workers = self._workers
        running = Gauge("holdfast_tasks_running", "Attempts that run now.", labels=["task"])
        now: Counter[str] = Counter()
        for worker in workers:
            # A task that does not run now is shown as 0, rather than left out.
            now.update(dict.fromkeys(worker.app.tasks, 0))
            now.update(piece.attempt.task.name for piece in list(worker.running))
        for task, n in sorted(now.items()):
            running.add_metric([task], n)
        yield running
        for name, text, n in (
            ("held", "Messages in this worker's hands.", sum(len(w.held) for w in workers)),
            ("waiting", "Of those, not begun yet.", sum(w.waiting for w in workers)),
            ("concurrency", "Tasks it may run.", sum(w.plan.concurrency for w in workers)),
        ):
            yield Gauge(f"holdfast_worker_{name}", text, value=n)

    def _of_queues(self) -> Iterator[Metric]:
        from prometheus_client.core import GaugeMetricFamily as Gauge

        app = self._app
        if app is None:
            return
        served = {share.queue for worker in self._workers for share in worker.plan.shares}
        messages = Gauge("holdfast_queue_messages", "Messages by state.", labels=["queue", "state"])
        oldest = Gauge(
            "holdfast_queue_oldest_seconds", "Age of the oldest ready one.", labels=["queue"]
        )
        for name, stats in self._depths.of(app, served | set(app.queues)).items():
            for state in STATES:
                messages.add_metric([name, state], getattr(stats, state))
            oldest.add_metric([name], stats.oldest_age)
        yield messages
        yield oldest

    # ---- served ---------------------------------------------------------------------------

    def serve(self, port: int, host: str = "127.0.0.1") -> None:
        """Serve the registry over HTTP from a thread. Raises InvalidArgument where that cannot be."""
        from prometheus_client import start_http_server

        try:
            self._page = start_http_server(port, host, self.registry)
        except (OSError, OverflowError) as error:
            raise InvalidArgument(
                f"cannot serve metrics on {host}:{port}: {error}; choose another port"
            ) from error

    def close(self) -> None:
        """Stop serving, and take these metrics out of the registry."""
        page, self._page = self._page, None
        if page is not None:
            server, thread = page
            server.shutdown()
            server.server_close()
            thread.join()
        self.registry.unregister(self)


def start(app: App, port: int, host: str = "127.0.0.1") -> Metrics:
    """Count what happens to this app's tasks in this process, and serve it. `port` 0: it is not served.

    Each process needs a port of its own: of several workers on one machine, the first has `port`, the
    next one more. Raises Unsupported without prometheus-client, InvalidArgument where the port is taken.
    """
    metrics = Metrics(app)
    try:
        if port:
            metrics.serve(port, host)
    except BaseException:
        metrics.close()
        raise
    app.add(metrics)
    return metrics
