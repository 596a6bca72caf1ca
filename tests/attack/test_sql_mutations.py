"""Changed SQL: a statement that can be run, or an error of ours."""

from tests.attack import statements
from tests.attack.harness import attack, rounds


def test_changed_statements_are_refused_or_run():
    outcome = attack(
        statements.make_statements, statements.change, statements.judge, rounds(200), 1
    )
    outcome.check()
    assert outcome.counts["refused"] > 0
    assert outcome.counts["run"] > 0
