"""Streams that are altered or dropped while engines run on them, and what was saved of them."""

from datetime import timedelta

import pyarrow as pa
import pytest

import everquery as eq
from everquery.queries.sql import AlterStream, DropStream, InvalidSqlError, read_sql
from everquery.registry import Registry

STREAM = eq.Stream("trades", key="symbol", time="ts", attributes=["price"], weight="shares")
BAND = eq.Border("band", {"price": (40, 50)})


@pytest.fixture
def url(tmp_path):
    url = f"sqlite:///{tmp_path / 'queries.db'}"
    Registry(url).close()  # makes it
    return url


def batch(time, price=45.0, **more):
    columns = {"symbol": ["IBM"], "ts": [time], "price": [price], "shares": [1]}
    return pa.table(columns | {name: [value] for name, value in more.items()})


def told(notices):
    return [(row["query_id"], row["event"]) for row in notices.to_pylist()]


class TestAddedAttributes:
    def altered(self, url):
        """Return an engine on a stream, and one on what it has been altered to."""
        old = eq.Engine(STREAM, registry=url)
        old.register(BAND)
        old.sql("ALTER STREAM trades ADD COLUMN volume DOUBLE")
        return old, eq.open(url)

    def test_a_new_engine_has_them_and_all_queries(self, url):
        _, new = self.altered(url)
        assert new.stream.attributes == ("price", "volume")
        new.register(eq.Range("large", {"volume": (100, None)}))
        assert told(new.process(batch(1, volume=200.0))) == [("band", "enter"), ("large", "match")]

    def test_a_running_engine_goes_on_as_it_was_and_says_so(self, url, caplog):
        old, _ = self.altered(url)
        assert told(old.process(batch(1))) == [("band", "enter")]
        assert "volume" in old.stats()["registry"]["altered"]
        assert old.stats()["registry"]["trouble"] is None
        assert "was altered" in caplog.text
        caplog.clear()
        old.process(batch(2))
        assert not caplog.text  # once is enough

    @pytest.mark.parametrize("as_table", [False, True])
    def test_queries_about_them_are_left_out_and_nothing_stalls(self, url, caplog, as_table):
        old, new = self.altered(url)
        if as_table:
            rows = {"id": ["large", "cheap"], "volume_lo": [100.0, None], "price_hi": [None, 50.0]}
            new.register_table(pa.table(rows), kind="range")
        else:
            new.register(
                [eq.Range("large", {"volume": (100, None)}), eq.Range("cheap", {"price": (0, 50)})]
            )
        new.register(eq.Quantile("middle", "volume", phi=0.5, epsilon=0.1))
        assert told(old.process(batch(1))) == [("band", "enter"), ("cheap", "match")]
        state = old.stats()["registry"]
        assert (state["position"], state["trouble"]) == (new.position, None)
        assert state["left_out"] == ["large", "middle"]
        assert "'large'" in caplog.text
        new.pause("large")
        new.deregister("middle")
        new.deregister("band")
        old.refresh()
        assert old.stats()["registry"]["left_out"] == ["large"]
        assert old.queries()["id"].to_pylist() == ["cheap"]

    def test_after_a_compaction_too(self, url):
        old, new = self.altered(url)
        new.register(
            [eq.Range("large", {"volume": (100, None)}), eq.Range("cheap", {"price": (0, 50)})]
        )
        new.compact_registry()
        old.refresh()
        assert old.queries()["id"].to_pylist() == ["band", "cheap"]
        assert old.stats()["registry"]["left_out"] == ["large"]

    def test_an_engine_that_does_not_know_all_queries_changes_none(self, url):
        old, new = self.altered(url)
        new.register(eq.Range("large", {"volume": (100, None)}))
        old.refresh()
        for call in (
            lambda: old.register(eq.Range("large", {})),
            lambda: old.deregister("band"),
            old.compact_registry,
        ):
            with pytest.raises(eq.RegistryError, match="open a new engine"):
                call()
        assert eq.open(url).queries()["id"].to_pylist() == ["band", "large"]

    def test_what_ends_by_itself_is_still_told(self, url):
        old, new = self.altered(url)
        new.register(eq.Threshold("sum", {}, total=1))
        assert ("sum", "fire") in told(old.process(batch(1)))
        assert eq.open(url).queries()["id"].to_pylist() == ["band"]

    def test_a_snapshot_from_before_is_refused_and_says_what_to_do(self, url):
        old, new = self.altered(url)
        old.process(batch(1))
        with pytest.raises(eq.SnapshotError, match=r"before 'volume' was added.*Begin without it"):
            new.restore(old.snapshot())
        assert told(new.process(batch(1, volume=1.0))) == [("band", "enter")]

    def test_the_stream_as_it_was_does_not_open_it(self, url):
        self.altered(url)
        with pytest.raises(eq.InvalidStreamError, match="by its name"):
            eq.Engine(STREAM, registry=url)


class TestSpans:
    def test_a_snapshot_goes_on_with_other_spans(self, url):
        old = eq.Engine(STREAM, registry=url)
        old.register(BAND)
        old.process(batch(1))
        old.sql("ALTER STREAM trades SET (expire_after = 10, grace = 2)")
        new = eq.Engine("trades", registry=url)
        new.restore(old.snapshot())
        assert told(new.process(batch(2))) == []
        assert told(new.advance(100)) == [("band", "leave")]
        assert "grace" in _altered(old)

    def test_a_guard_that_is_altered_away_refuses_what_waited(self, url):
        old = eq.Engine(STREAM.altered(max_ahead=5), registry=url)
        old.process(batch(1))
        assert old.stats()["ahead"] == 1
        old.sql("ALTER STREAM trades SET (max_ahead = NULL)")
        new = eq.Engine("trades", registry=url)
        new.restore(old.snapshot())
        new.process(batch(2))
        assert new.stats()["dead_letters_by_reason"] == {"ahead": 1}
        assert new.stats()["ahead"] == 0

    def test_an_engine_with_other_spans_changes_queries(self, url):
        old = eq.Engine(STREAM, registry=url)
        old.sql("ALTER STREAM trades SET (grace = 5)")
        old.register(BAND)
        assert eq.open(url).queries()["id"].to_pylist() == ["band"]

    def test_altered_back_is_as_if_nothing_had_been(self, url):
        old = eq.Engine(STREAM, registry=url)
        old.sql("ALTER STREAM trades SET (grace = 5)")
        assert _altered(old)
        old.sql("ALTER STREAM trades SET (grace = NULL)")
        assert _altered(old) is None


def _altered(engine):
    engine.refresh()
    return engine.stats()["registry"]["altered"]


class TestDropped:
    def test_a_running_engine_goes_on_and_says_so(self, url, caplog):
        engine = eq.Engine(STREAM, registry=url)
        engine.register(BAND)
        with eq.Engine("trades", registry=url) as other:
            other.sql("DROP STREAM trades CASCADE")
        assert told(engine.process(batch(1))) == [("band", "enter")]
        assert told(engine.process(batch(2, 60.0))) == [("band", "leave")]
        assert "it was dropped" in engine.stats()["registry"]["trouble"]
        assert caplog.text.count("from now on") == 1
        for call in (engine.refresh, lambda: engine.register(eq.Range("r", {}))):
            with pytest.raises(
                eq.UnknownStreamError, match="'trades' is not in the registry any more"
            ):
                call()

    def test_not_with_live_queries_unless_told_so(self, url):
        engine = eq.Engine(STREAM, registry=url)
        engine.register(BAND)
        with pytest.raises(eq.InvalidStreamError, match=r"a live query; .*CASCADE"):
            engine.sql("DROP STREAM trades")
        engine.deregister("band")
        engine.sql("DROP STREAM trades")
        assert Registry(url).streams() == {}

    def test_queries_that_an_engine_left_out_count_as_well(self, url):
        old = eq.Engine(STREAM, registry=url)
        old.sql("ALTER STREAM trades ADD volume DOUBLE")
        eq.open(url).register(eq.Range("large", {"volume": (100, None)}))
        with pytest.raises(eq.InvalidStreamError, match="a live query"):
            old.sql("DROP STREAM trades")

    def test_another_stream_only_with_its_queries(self, url):
        engine = eq.Engine(STREAM, registry=url)
        engine.sql("CREATE STREAM quotes (bid DOUBLE)")
        with pytest.raises(eq.InvalidStreamError, match="does not know whether 'quotes'"):
            engine.sql("DROP STREAM quotes")
        engine.sql("DROP STREAM quotes CASCADE")
        assert list(Registry(url).streams()) == ["trades"]

    @pytest.mark.parametrize("text", ["DROP STREAM trades", "ALTER STREAM trades SET (grace = 1)"])
    def test_without_a_registry_a_stream_stays(self, text):
        engine = eq.Engine(STREAM)
        with pytest.raises(eq.InvalidStreamError, match="without a registry"):
            engine.sql(text)


class TestSql:
    def read(self, text):
        return read_sql(text, stream_of={"trades": STREAM}.__getitem__)

    def test_what_is_read(self):
        minute = timedelta(minutes=1)
        text = """
        ALTER STREAM trades SET (grace = INTERVAL '1' MINUTE, max_ahead = NULL),
            ADD COLUMN a DOUBLE, ADD b INT ATTRIBUTE;
        DROP STREAM trades; CREATE STREAM trades (x INT); DROP STREAM trades CASCADE;
        """
        altered, dropped, _, cascade = self.read(text)
        assert altered == AlterStream(
            "trades", (("grace", minute), ("max_ahead", None)), ("a", "b")
        )
        assert (dropped, cascade) == (DropStream("trades"), DropStream("trades", cascade=True))

    def test_a_new_attribute_is_known_to_the_statements_behind(self):
        query = "CREATE STANDING QUERY q AS SELECT * FROM trades WHERE volume > 1 EMIT MATCHES"
        with pytest.raises(InvalidSqlError, match="volume"):
            self.read(query)
        assert len(self.read(f"ALTER STREAM trades ADD volume DOUBLE; {query}")) == 2

    @pytest.mark.parametrize(
        ("text", "said"),
        [
            ("ALTER STREAM trades", "expected SET or ADD"),
            ("ALTER STREAM trades SET (grase = 1)", "did you mean GRACE?"),
            ("ALTER STREAM trades SET (grace = 1), SET (grace = 2)", "grace is given twice"),
            ("ALTER STREAM trades SET (grace = 0 - 1)", "expected , or )"),
            ("ALTER STREAM trades SET (max_ahead = 0)", "must be positive"),
            ("ALTER STREAM trades ADD price DOUBLE", "named twice"),
            ("ALTER STREAM trades ADD at TIMESTAMP TIME", "is an attribute, and can't be the time"),
            ("ALTER STREAM trades ADD note TEXT", "has type TEXT"),
            ("ALTER STREAM trades DROP price", "expected SET or ADD"),
            ("ALTER STREAM nope SET (grace = 1)", "nope"),
            ("DROP STREAM trades RESTRICT", "expected ';' or the end"),
            ("DROP STREAM trades; DROP STREAM trades", "is dropped above"),
            ("DROP STREAM trades; ALTER STREAM trades SET (grace = 1)", "is dropped above"),
            ("DROP STEAM trades", "did you mean STREAM?"),
        ],
    )  # fmt: skip
    def test_what_can_not_be(self, text, said):
        def stream_of(name):
            if name != "trades":
                raise eq.UnknownStreamError(f"there is no stream {name!r}")
            return STREAM

        with pytest.raises(InvalidSqlError) as caught:
            read_sql(text, stream_of=stream_of)
        assert said in str(caught.value)
