"""What can be seen of tasks and workers from outside: metrics, traces, logs.

Each part is for those who ask for it: `metrics` needs the extra `metrics`, `tracing.OpenTelemetry` the
extra `otel`; nothing of either is imported before.
"""

from __future__ import annotations

from holdfast.telemetry.trace_context import Trace, current_trace
from holdfast.telemetry.tracing import Propagation

__all__ = ["Propagation", "Trace", "current_trace"]
