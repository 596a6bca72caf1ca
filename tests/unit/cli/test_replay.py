"""``everquery replay``: what would have been told."""


def test_replay_ends_nothing_for_good(shell, tmp_path):
    shell("query", "add", "calm", "--box", "price=40..50", "--ttl", "8")
    events = tmp_path / "e.csv"
    events.write_text("symbol,ts,price\nIBM,0,45\nIBM,9,45\n")
    counts = shell.json("replay", events)["by_query"]
    assert counts == [{"query_id": "calm", "end": 1, "enter": 1}]
    assert [row["id"] for row in shell.json("query", "list")] == ["calm"]
