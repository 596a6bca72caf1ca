"""What a shard counts."""

from __future__ import annotations

from typing import Any

from everquery.shard.contents import Contents


def stats_of(contents: Contents) -> dict[str, Any]:
    """Return counts of queries by kind, bytes by structure, events that lack or wait."""
    catalog, hygiene, admission = contents.catalog, contents.hygiene, contents.admission
    by_reason = contents.dead_letters.by_reason()
    held = admission.held
    return {
        "queries": {kind: catalog.count(i) for i, kind in enumerate(contents.indexes)},
        "paused": catalog.paused,
        "keys": len(contents.keys),
        "bytes": {
            **{f"{kind} index": index.nbytes() for kind, index in contents.indexes.items()},
            "catalog": catalog.nbytes(),
            "query ids": catalog.names.name_bytes(),
            "keys": contents.keys.nbytes(),
            "hygiene": hygiene.nbytes(),
        },
        "partial": admission.partial.events,
        "partial_by_column": dict(admission.partial.by_column),
        "held": 0 if held is None else len(held),
        "ahead": len(admission.guard),
        "throttled": hygiene.throttled,
        "undone": hygiene.undone,
        "waiting": len(hygiene.pairs),
        "dead_letters": sum(by_reason.values()),
        "dead_letters_by_reason": by_reason,
    }
