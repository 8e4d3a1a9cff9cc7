"""For the tests of those who use Holdfast: a kit around their app, on a real server that is theirs alone.

With pytest installed, the fixtures `holdfast_kit`, `holdfast_app` and `holdfast_server` are there by
themselves (plugin.py). Nothing else here needs pytest.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from holdfast.testing.clock import Clock
    from holdfast.testing.kit import Kit, MakeKit
    from holdfast.testing.records import Dead, Ran, Sent

__all__ = ["Clock", "Dead", "Kit", "MakeKit", "Ran", "Sent"]

# Loaded when first asked for: pytest imports the plugin, and so this package, whatever is tested.
_WHERE = {"Clock": "clock", "Kit": "kit", "MakeKit": "kit"} | dict.fromkeys(
    ("Dead", "Ran", "Sent"), "records"
)


def __getattr__(name: str) -> Any:
    if name not in _WHERE:
        raise AttributeError(f"module 'holdfast.testing' has no attribute {name!r}")
    return getattr(import_module(f"holdfast.testing.{_WHERE[name]}"), name)
