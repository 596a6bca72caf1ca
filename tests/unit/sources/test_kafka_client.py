"""The client of Kafka, without a broker."""

import sys

import pytest

from everquery.errors import KafkaError, KafkaMissingError
from everquery.sources.kafka_client import Servers, TopicSpan, client, new_consumer, records_of


def test_without_the_client_the_extra_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "confluent_kafka", None)
    with pytest.raises(KafkaMissingError, match=r"pip install 'everquery\[kafka\]'"):
        client()


def test_an_option_that_there_is_not():
    pytest.importorskip("confluent_kafka")
    with pytest.raises(KafkaError, match=r"startingOffsets.*options are those of librdkafka"):
        new_consumer(Servers("127.0.0.1:1", (("startingOffsets", "earliest"),)))


def test_servers_that_do_not_answer(monkeypatch):
    pytest.importorskip("confluent_kafka")
    monkeypatch.setattr("everquery.sources.kafka_client.ANSWER_SECONDS", 0.2)
    servers = Servers("127.0.0.1:1", wait_seconds=0.3)
    with pytest.raises(KafkaError, match=r"Kafka servers 127\.0\.0\.1:1: .*Connection refused"):
        list(records_of(servers, TopicSpan("trades", 0, 0, 10)))


def test_passwords_are_not_shown():
    servers = Servers("host:9092", (("sasl.password", "sesame"),))
    assert "sesame" not in repr(servers)
    assert servers.settings()["sasl.password"] == "sesame"


def test_nothing_is_ever_committed():
    settings = Servers("host:9092", (("enable.auto.commit", "true"),)).settings()
    assert settings["enable.auto.commit"] == settings["enable.auto.offset.store"] == "false"
