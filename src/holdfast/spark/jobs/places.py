"""A place, said as options of the data source: how the jobs name what they read and write."""

from __future__ import annotations

from holdfast.spark.place import Place


def options(place: Place, *, journal: bool = False) -> dict[str, str]:
    found = {
        "url": place.url,
        "home": place.home,
        "journal" if journal else "queue": place.queue,
        "topic": place.topic,
        "subscription": place.subscription,
        "peer": place.peer,
    }
    return {name: value for name, value in found.items() if value}
