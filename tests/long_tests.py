"""What `make test` leaves to CI: tests that take long and are much like others that it runs.

By the beginnings of their node ids, below ``tests/``.
"""

LONG = (
    "attack/test_registry_mutations.py::test_on_a_server",
    "attack/test_registry_mutations.py::test_whatever_is_forged_can_be_repaired",
    "conformance/test_kinds.py::test_batches_are_invisible[spark",
    "conformance/test_kinds.py::test_ids_of_a_plain_run_are_unique[spark",
    "conformance/test_kinds.py::test_replay_is_deterministic_and_ids_are_unique[spark",
    "conformance/test_kinds.py::test_snapshot_and_restore_at_every_batch_change_nothing[spark",
    "conformance/test_worlds.py::test_equals_brute_force[spark",
    "integration/test_damaged_while_used.py",
    "spark/test_checkpoints.py::test_a_",
    "spark/test_cli.py::test_a_",
    "spark/test_cluster.py",
    "spark/test_disk.py",
    "spark/test_executors.py",
    "spark/test_java.py::test_a_",
    "spark/test_java.py::test_nothing_is_printed",
    "spark/test_java.py::test_who_waits",
    "spark/test_kafka.py::test_columns_of_other_types",
    "spark/test_kafka.py::test_from_topic_to_topic[avro",
    "spark/test_kafka.py::test_the_page",
    "spark/test_quarantine.py",
    "spark/test_registry_away.py",
    "spark/test_registry_source.py::test_events_flow",
    "spark/test_replay.py",
    "spark/test_rescale.py::test_the_state_goes_along",
    "spark/test_session.py::test_no",
    "spark/test_watch.py::test_as_by_an_engine[bigint times",
    "spark/test_watch.py::test_as_by_an_engine[dates",
    "spark/test_watch.py::test_as_by_an_engine[double times",
    "spark/test_watch.py::test_as_by_an_engine[in New York",
    "spark/test_watch.py::test_carried_instants",
    "spark/test_workers.py",
    "unit/shard/test_churn.py",
)
