"""Streams, events and select queries for property tests; values are halves, so sums are exact."""

from hypothesis import strategies as st

import everquery as eq

R = eq.Stream("r", key="k", time="t", attributes=["x", "y"], weight="w")
S = eq.Stream("s", key="k", time="t", attributes=["z"])

KEYS = st.sampled_from(["a", "b", "c"])
VALUES = st.sampled_from([None, -1.0, 0.0, 0.5, 1.0, 2.0, 2.5, 3.0])
OPERATORS = st.sampled_from(["=", "<", "<=", ">", ">="])


@st.composite
def batches(draw, stream, *, ordered):
    """Return batches of events; times of different keys may go back between batches."""
    found, time = [], 0
    for _ in range(draw(st.integers(1, 5))):
        batch = []
        for _ in range(draw(st.integers(0, 6))):
            time += draw(st.integers(0, 3))
            back = 0 if ordered else draw(st.sampled_from([0, 0, 4]))
            event = {"k": draw(KEYS), "t": time - back}
            event |= {name: draw(VALUES) for name in stream.attributes}
            if stream.weight:
                event["w"] = draw(st.sampled_from([1, 2, 5, None]))
            batch.append(event)
        found.append(batch)
    return found


@st.composite
def windows(draw, *, bounded=False):
    begins = ["NOW - 4", "NOW - 1", "NOW - 2 ROWS", "NOW - 7 ROWS"]
    if not bounded:
        begins += ["OLDEST", "3", "2 ROWS"]
    begin = draw(st.sampled_from(begins))
    ends = ["NOW"]
    if "ROWS" in begin:
        ends += ["NOW - 1 ROWS", "9 ROWS"]
    elif begin != "OLDEST":
        ends += ["NOW - 1", "6"] if begin != "3" else ["6"]
    return f"BEGIN {begin} END {draw(st.sampled_from(ends))}"


@st.composite
def selects(draw, query_id="q"):
    """Return queries over `R`."""
    where = []
    if draw(st.booleans()):
        constant = draw(st.sampled_from(["0", "0.5", "2"]))
        where.append(f"x {draw(OPERATORS)} {constant}")
    if draw(st.booleans()):
        where.append(f"x {draw(OPERATORS)} y{draw(st.sampled_from(['', ' + 0.5', ' - 1']))}")
    if draw(st.integers(0, 3)) == 0:
        where.append("k = 'a'")
    condition = f" WHERE {' AND '.join(where)}" if where else ""
    items = draw(
        st.sampled_from(
            ["*", "k, x", "t, w, y", "DISTINCT k", "DISTINCT x, k",
             "COUNT(*)", "COUNT(*), COUNT(x), SUM(x), AVG(x), MIN(x), MAX(y), SUM(w)",
             "VAR_POP(x), COUNT(DISTINCT y), COUNT(DISTINCT k), COUNT(DISTINCT t), VAR_POP(w)",
             "k, COUNT(*), SUM(y)", "x, k, MAX(y), MIN(w)", "k, VAR_POP(x), COUNT(DISTINCT x)"]
        )
    )  # fmt: skip
    group = {
        "k, COUNT(*), SUM(y)": " GROUP BY k",
        "x, k, MAX(y), MIN(w)": " GROUP BY k, x",
        "k, VAR_POP(x), COUNT(DISTINCT x)": " GROUP BY k",
    }
    having = ""
    if items in group and draw(st.booleans()):
        measured = draw(st.sampled_from(["COUNT(*)", "COUNT(DISTINCT x)", "VAR_POP(y)"]))
        having = f" HAVING {measured} > 1"
    plan = f"SELECT {items}{condition}{group.get(items, '')}{having} {draw(windows())}"
    return eq.Select(query_id, plan, upkeep=draw(st.sampled_from(["auto", "lazy", "eager"])))


@st.composite
def joins(draw, query_id="j"):
    """Return queries over `R` and `S`."""
    conditions = (
        "r.k = s.k",
        f"r.x {draw(OPERATORS)} s.z",
        f"s.z {draw(OPERATORS)} r.y + 0.5",
    )
    where = [condition for condition in conditions if draw(st.booleans())]
    where = where or ["r.x > s.z"]
    where += draw(st.sampled_from([[], ["r.x > 0"], ["s.z >= 1"], ["s.k = 'b'"], ["r.k = 'a'"]]))
    items, group = draw(
        st.sampled_from(
            [("r.k, r.x, s.z", ""), ("*", ""), ("COUNT(*), SUM(s.z), MAX(r.x)", ""),
             ("VAR_POP(s.z), COUNT(DISTINCT s.k), COUNT(DISTINCT r.x)", ""),
             ("r.k, COUNT(*)", " GROUP BY r.k"), ("DISTINCT s.k", "")]
        )
    )  # fmt: skip
    plan = f"SELECT {items} FROM r, s WHERE {' AND '.join(where)}{group}"
    return eq.Select(query_id, f"{plan} {draw(windows(bounded=True))}")
