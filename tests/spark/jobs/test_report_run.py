"""The job as a whole: where it reads, where it writes, and what it says."""

from __future__ import annotations

import io
import json
import re
from base64 import b64encode
from hashlib import sha256
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import msgspec
import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F
from rich.console import Console

from holdfast.errors import InvalidArgument
from holdfast.spark.jobs import report
from holdfast.spark.jobs.report import folder
from tests.spark.jobs.stories import acked, dead, frame, nacked, received, sent, story

# A name may hold anything that can be printed; a reason anything at all.
NAME = "<script>alert('x')</script>\"><img src=x onerror=alert(1)> [bold]&amp;"
REASON = NAME + "\x1b[31m\x00 \u202e"


def _events() -> list[dict[str, Any]]:
    return [
        *story("orders", sent(0), received(1), acked(3), id="1-0"),
        *story("orders", sent(0), received(2), nacked(3, 1), received(4, 1), acked(5, 1), id="2-0"),
        *story("orders", sent(0), received(1), dead(2, 1, "no stock"), id="3-0"),
        *story("007", sent(0), id="1-0"),
        *story(NAME, sent(0), received(1), nacked(2, 1, REASON), received(3, 1), id="1-0"),
        *story(NAME, sent(0), received(1), dead(2, 1, REASON + "long " * 900), id="2-0"),
    ]


@pytest.fixture(scope="module")
def archive(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> str:
    """An archive as `holdfast spark archive --journal` writes it."""
    path = str(tmp_path_factory.mktemp("lake") / "journal")
    events = frame(spark, _events()).withColumn("day", F.to_date("time"))
    events.write.partitionBy("queue", "day").parquet(path)
    return path


@pytest.fixture(scope="module")
def made(
    spark: SparkSession, archive: str, tmp_path_factory: pytest.TempPathFactory
) -> report.Summary:
    """A report on it, in a folder that was not there."""
    return report.run(spark, archive, str(tmp_path_factory.mktemp("reports") / "a" / "b"))


def _terminal(summary: report.Summary) -> str:
    out = io.StringIO()
    report.render_terminal(summary, Console(file=out, width=200, force_terminal=False))
    return out.getvalue()


@pytest.mark.slow
def test_a_report_adds_up(made: report.Summary) -> None:
    assert (made.events, made.queue_count, made.bucket) == (19, 3, "second")
    account = made.account
    assert (account.messages, account.outcomes["acked"], account.outcomes["dead"]) == (6, 2, 2)
    assert account.in_flight == 2
    assert account.messages == sum(account.outcomes.values())
    assert account.messages == sum(line.account.messages for line in made.queues)
    assert account.retries == 2
    assert ("no stock", 1, "orders") in [(d.reason, d.deaths, d.queue) for d in made.deaths]
    assert made.times is not None
    assert made.times.total.max_ms == 5000
    # A queue whose name looks like a number keeps its name.
    assert {line.queue for line in made.queues} == {"orders", "007", NAME}


def test_tables_page_summary_and_terminal_say_the_same(
    spark: SparkSession, made: report.Summary
) -> None:
    to = Path(made.folder)
    assert made.page == str(to / "index.html")
    page = Path(made.page).read_text()
    for said in ("no stock", "007", "orders"):
        assert said in page
        assert said in _terminal(made)
    assert made.page in _terminal(made)
    assert spark.read.parquet(str(to / "tables" / "lives")).count() == 6
    assert {p.name for p in (to / "tables").iterdir()} == {
        *("lives", "queues", "latency", "attempts", "endings", "failures", "dead_letters"),
        *("slowest", "throughput", "backlog"),
    }
    assert list(to.parent.iterdir()) == [to]  # nothing of the making is left
    assert folder.read_summary(to) == made
    assert msgspec.json.decode(msgspec.json.encode(made), type=report.Summary) == made


def test_an_archive_without_events_makes_a_report_that_says_so(
    spark: SparkSession, tmp_path: Path
) -> None:
    path = str(tmp_path / "journal")
    frame(spark, []).write.parquet(path)
    summary = report.run(spark, path, str(tmp_path / "report"))
    assert summary.account.messages == 0
    assert summary.first is None
    assert "holds no events" in _terminal(summary)
    assert "holds no events" in Path(summary.page).read_text()


# ---- what is refused ------------------------------------------------------------------------


def test_a_path_that_is_not_there_is_refused(spark: SparkSession, tmp_path: Path) -> None:
    with pytest.raises(InvalidArgument, match="there is no such folder"):
        report.run(spark, str(tmp_path / "nowhere"), str(tmp_path / "report"))
    assert list(tmp_path.iterdir()) == []


def test_a_folder_without_parquet_is_refused(spark: SparkSession, tmp_path: Path) -> None:
    (tmp_path / "lake").mkdir()
    with pytest.raises(InvalidArgument, match="holds no Parquet files"):
        report.run(spark, str(tmp_path / "lake"), str(tmp_path / "report"))


def test_what_is_no_journal_is_refused_with_what_it_lacks(
    spark: SparkSession, tmp_path: Path
) -> None:
    path = str(tmp_path / "messages")
    spark.range(3).select(F.col("id").cast("string"), F.lit("q").alias("queue")).write.parquet(path)
    with pytest.raises(InvalidArgument, match="lacks the columns shard, entry, position, event, "):
        report.run(spark, path, str(tmp_path / "report"))


def test_queues_without_events_are_refused_and_the_others_named(
    spark: SparkSession, archive: str, tmp_path: Path
) -> None:
    with pytest.raises(InvalidArgument, match=r"no events of 'nobody' .* of: 007, .*orders"):
        report.run(spark, archive, str(tmp_path / "report"), queues=["007", "nobody"])


def test_a_report_replaces_a_report_also_with_one_of_fewer_queues(
    spark: SparkSession, archive: str, made: report.Summary, tmp_path: Path
) -> None:
    to = tmp_path / "report"
    to.mkdir()
    folder.keep(to, made)
    (to / "old").write_text("of the earlier report")
    summary = report.run(spark, archive, str(to), queues=["007"])
    assert [line.queue for line in summary.queues] == ["007"]
    assert not (to / "old").exists()
    assert folder.read_summary(to) == summary


def test_a_report_replaces_nothing_but_a_report(archive: str, tmp_path: Path) -> None:
    assert folder.target(str(tmp_path), archive) == tmp_path  # an empty folder will do
    (tmp_path / "summary.json").write_text(json.dumps({"made_by": "somebody else"}))
    for place in (tmp_path, tmp_path / "summary.json"):
        with pytest.raises(InvalidArgument, match="is not a report of ours"):
            folder.target(str(place), archive)


def test_a_report_that_fails_leaves_the_earlier_one(tmp_path: Path) -> None:
    place = tmp_path / "report"
    place.mkdir()
    (place / "index.html").write_text("earlier")
    with pytest.raises(RuntimeError), folder.replacing(place) as made:
        (made / "index.html").write_text("half")
        raise RuntimeError("no more room")
    assert (place / "index.html").read_text() == "earlier"
    assert list(tmp_path.iterdir()) == [place]


def test_a_report_does_not_go_into_the_archive_or_to_where_no_browser_looks(
    tmp_path: Path,
) -> None:
    with pytest.raises(InvalidArgument, match="within the archive"):
        folder.target(str(tmp_path / "lake" / "report"), str(tmp_path / "lake"))
    with pytest.raises(InvalidArgument, match="within the archive"):
        folder.target(str(tmp_path), f"file://{tmp_path}")
    with pytest.raises(InvalidArgument, match="local folder"):
        folder.target("s3a://bucket/report", str(tmp_path))
    assert folder.target(f"file://{tmp_path}/r", "s3a://bucket/lake") == tmp_path / "r"


# ---- what is shown of other people's texts --------------------------------------------------


_SOURCES = Path(report.__file__).parent


class _Elements(HTMLParser):
    """Every element and attribute of a page, as a browser would see them."""

    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.tags: list[str] = []
        self.attributes: list[tuple[str, str | None]] = []
        self.text: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes += attrs

    def handle_data(self, data: str) -> None:
        self.text.append(data)


def test_names_and_reasons_are_never_markup(made: report.Summary) -> None:
    text = Path(made.page).read_text()
    page = _Elements()
    page.feed(text)
    assert page.tags.count("script") == 1
    assert "img" not in page.tags
    assert not [key for key, _ in page.attributes if key.startswith("on") or key == "src"]
    assert any("<script>alert('x')" in piece for piece in page.text)  # it is there, as text
    assert not re.search(r"[\x00-\x08\x0b-\x1f\u202e]", text)
    assert len(text) < 200_000  # and not all of a reason that goes on and on

    seen = _terminal(made)
    assert "\x1b" not in seen
    assert "[bold]&amp;" in seen


def test_the_page_loads_nothing_and_runs_only_its_own_script(made: report.Summary) -> None:
    text = Path(made.page).read_text()
    page = _Elements()
    page.feed(text)
    assert not {"src", "href", "srcset", "action", "data"} & {key for key, _ in page.attributes}
    # Ours; what the data says is text, and may name what it likes.
    for name in ("page.css", "page.js"):
        assert not re.search(r"@import|url\(|https?:", (_SOURCES / name).read_text())
    policies = [value for _, value in page.attributes if value and value.startswith("default-src")]
    script = text.partition("<script>")[2].partition("</script>")[0]
    digest = b64encode(sha256(script.encode()).digest()).decode()
    assert policies == [
        f"default-src 'none'; style-src 'unsafe-inline'; script-src 'sha256-{digest}'"
    ]


def test_every_plot_says_what_it_is(made: report.Summary) -> None:
    plots = re.findall(r"<svg.*?</svg>", Path(made.page).read_text(), re.DOTALL)
    assert len(plots) > 10
    for plot in plots:
        assert "<title>" in plot
        assert re.match(r'<svg[^>]*role="img"[^>]*aria-label="[^"]', plot)
