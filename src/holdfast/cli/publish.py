"""holdfast publish: as send, to all who are subscribed to a topic."""

from __future__ import annotations

from holdfast.cli import send
from holdfast.cli.options import Json, TopicName, Url, connected


def publish(
    topic: TopicName,
    body: send.Bodies = None,
    by_line: send.ByLine = False,
    by_json: send.ByJson = False,
    file: send.File = None,
    delay: send.Delay = None,
    due: send.Due = None,
    priority: send.Priority = 0,
    group: send.Group = None,
    dedup_id: send.DedupId = None,
    ttl: send.Ttl = None,
    attribute: send.Attributes = None,
    url: Url = None,
    json: Json = False,
) -> None:
    """Store messages for every subscription of a topic, or for none of them.

    While nobody is subscribed the topic holds them for the first who comes. Each subscription keeps
    what it got until its consumer acks it.

    \b
    holdfast publish prices "17.5"                        one message, to all
    holdfast publish prices 17.5 -a sku=A-1 -a kind=new   with attributes, for filters
    holdfast publish prices --lines --file prices.txt     each line a message
    holdfast publish prices --jsonl < prices.jsonl        each with its own settings

    A JSON line is as for `holdfast send`.
    """
    common = send.outgoing(delay, due, priority, attribute, group, dedup_id, ttl)
    words = send.Words(common, body, by_line, by_json, file)
    with words.opened(), connected(url) as client:
        words.go(topic, client.topic(topic).publish_many, "published", json)
