"""Quotas of owners from the command line."""


def test_quotas(shell):
    assert "may have 1 live query; 0 are" in shell("quota", "set", "ann", 1).stdout
    shell("quota", "default", 5)
    shell("query", "add", "a", "--owner", "ann")
    result = shell("query", "add", "b", "--owner", "ann", code=1)
    assert "owner 'ann' has 1 live queries and a quota of 1" in result.stderr
    assert shell.json("quota", "list") == [
        {"owner": None, "quota": 5, "live": None},
        {"owner": "ann", "quota": 1, "live": 1},
    ]
    assert "(any other)" in shell("quota", "list").stdout
    shell("quota", "drop", "ann")
    shell("quota", "drop")
    assert shell.json("quota", "list") == []
    shell("quota", "set", "ann", "--", -1, code=2)
