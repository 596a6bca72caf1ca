"""The examples run, and tell what they promise."""

import runpy
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parents[3] / "examples"

PRICE_ALERTS = """\
-- the market opens
09:30:02  IBM    50.00  enter  ada: IBM 40-50
09:30:03  XYZ     0.80  match  cem: penny stocks
-- dee has joined, cem has left
09:30:02  IBM    50.00  enter  dee: IBM above 45 (registered)
09:31:00  IBM    50.01  leave  ada: IBM 40-50
09:31:01  AAPL  179.90  enter  bob: AAPL below 180
09:31:03  IBM    44.00  enter  ada: IBM 40-50
09:31:03  IBM    44.00  leave  dee: IBM above 45
"""
GEOFENCES = """\
van 1 at 52.505, 13.402: match near depot
van 2 at 52.365, 13.500: enter airport
van 1 at 52.516, 13.404: enter old town
van 1 at 52.518, 13.412: enter harbour
van 1 at 52.525, 13.420: leave old town
van 2 at 52.400, 13.480: leave airport
"""
TOLD = {"price_alerts.py": PRICE_ALERTS, "geofences.py": GEOFENCES}
# Of these, tests/integration/test_examples.py finds out what to tell.
COMPUTED = {"couriers.py", "fraud.py", "network_traffic.py", "payments.py", "sensors.py"}


def test_every_example_is_tested():
    assert {path.name for path in EXAMPLES.glob("*.py")} == {*TOLD, *COMPUTED}


@pytest.mark.parametrize("name", TOLD)
def test_example(name, capsys):
    runpy.run_path(str(EXAMPLES / name), run_name="__main__")
    assert capsys.readouterr().out.endswith(TOLD[name])
