"""Payments: whoever spends more than the limit in a day is reported once that day.

Amounts are in cents, and a refund is a payment below zero: it lowers what the account has spent.
Each account has a total of its own, whether it was known before or not, and the totals begin anew
at midnight.

Run it with ``python examples/payments.py``.
"""

from __future__ import annotations

from datetime import datetime, timedelta

import pyarrow as pa

import everquery as eq

BEGIN = datetime(2024, 5, 1, 7)
DAYS = 3
LIMIT = 50_000  # cents
ACCOUNTS = ("ann", "bob", "cem", "dee")


def payments() -> pa.Table:
    """Return the payments of some days, every seventh of which is paid back half an hour later."""
    rows = []
    for number in range(30 * DAYS):
        at = BEGIN + timedelta(days=number // 30, minutes=29 * (number % 30))
        account = ACCOUNTS[(number * number + number // 5) % len(ACCOUNTS)]
        cents = 2_500 + 1_733 * (number % 11)
        rows.append((account, at, cents))
        if number % 7 == 0:
            rows.append((account, at + timedelta(minutes=30), -cents))
    accounts, times, amounts = zip(*sorted(rows, key=lambda row: row[1]), strict=True)
    return pa.table({"account": accounts, "ts": times, "cents": amounts})


def main() -> None:
    """Take the payments in, and tell who is over the limit."""
    stream = eq.Stream("payments", key="account", time="ts", attributes=[], weight="cents")
    with eq.Engine(stream) as engine:
        engine.register(
            eq.Threshold(
                "daily limit", {}, total=LIMIT, by_key=True, every="1d", negative="subtract"
            )
        )
        table = payments()
        for first in range(0, table.num_rows, 20):
            for notice in engine.process(table.slice(first, 20)).to_pylist():
                print(f"{notice['time']:%Y-%m-%d %H:%M}  {notice['key']} is over the limit")


if __name__ == "__main__":
    main()
