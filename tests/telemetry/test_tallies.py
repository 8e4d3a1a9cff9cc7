"""How often a time fell into which bucket, as Prometheus counts it."""

from __future__ import annotations

from prometheus_client import CollectorRegistry, Histogram

from holdfast.telemetry.tallies import BUCKETS, Spread


def test_a_spread_is_what_prometheus_would_have_made_of_it() -> None:
    ours, theirs = Spread(), CollectorRegistry()
    histogram = Histogram("h", "h", registry=theirs, buckets=BUCKETS)
    for seconds in (0.0, 0.001, 0.0011, 0.3, 1, 59.9, 60, 1800, 1801, 1e9):
        ours.add(seconds)
        histogram.observe(seconds)
    for bound, n in ours.cumulative():
        assert n == theirs.get_sample_value("h_bucket", {"le": bound}), bound
    assert ours.sum == theirs.get_sample_value("h_sum")
