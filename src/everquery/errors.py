"""One exception tree.

::

    EverqueryError
    ├── InvalidStreamError      (ValueError)  a stream definition that can't be
    ├── InvalidQueryError       (ValueError)  a query that can't be, or not on this stream
    │   ├── DuplicateQueryError               an id that is live already
    │   ├── QuotaError                        more live queries than their owner may have
    │   └── InvalidTableError                 a table of queries with bad rows; see ``errors``
    ├── InvalidSqlError         (ValueError)  SQL that can't be read (in everquery.queries.sql)
    ├── InvalidNetworkError     (ValueError)  a network, or a change of one, that can't be
    ├── RowsGoneError           (ValueError)  a window asks for rows that are kept no more
    ├── AnswerTooLargeError     (ValueError)  an answer that is to be read page by page
    ├── UnknownQueryError       (KeyError)    no live query has this id
    ├── UnknownStreamError      (KeyError)    the registry has no such stream
    ├── RegistryError                         the registry can't be opened, read or written
    │   ├── RegistryBehindError               another writer came first; try again
    │   ├── RegistryLostError                 it lacks what a reader has read or has yet to read
    │   ├── RegistryDamagedError              a row of it is missing, cut or changed
    │   └── ReaderBusyError                   another process follows the log as this reader
    ├── SparkError                            the Spark runtime can't start, or not like this
    │   ├── SparkMissingError   (ImportError) PySpark, or what it needs, is not installed
    │   ├── JavaMissingError                  no Java that Spark can run on
    │   └── JavaDiedError                     the Java that Spark ran on has ended
    ├── PlotMissingError        (ImportError) matplotlib, which draws pictures, is not installed
    ├── KafkaError                            records of a topic can't be had
    │   ├── KafkaMissingError   (ImportError) confluent-kafka, which reads them, is not installed
    │   └── RecordsLostError                  they are gone: waiting does not help
    ├── UnreadableFileError     (ValueError)  a file of events or queries that can't be read
    ├── UnwritableFileError     (ValueError)  a file, of notices for one, that can't be written
    ├── InvalidBatchError       (ValueError)  events without a column, or with one of a wrong type
    ├── HistoryError            (ValueError)  a past that is not kept, is lost, or can't be written
    ├── SnapshotError           (ValueError)  bytes that this engine can't restore
    │   └── EventsGoneError                   state refers to events that can't be read again
    └── TornEngineError                       a call failed half way; restore a snapshot
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pyarrow as pa


class EverqueryError(Exception):
    """The root of every error that everquery raises on purpose."""


class InvalidStreamError(EverqueryError, ValueError):
    """A stream definition contradicts itself."""


class InvalidQueryError(EverqueryError, ValueError):
    """A query is malformed, or does not fit the stream."""


class DuplicateQueryError(InvalidQueryError):
    """A query with this id is live already."""


class QuotaError(InvalidQueryError):
    """An owner would have more live queries than its quota.

    Attributes
    ----------
    owner : str
    limit, live : int
        How many the owner may have, and has.
    """

    def __init__(self, owner: str, limit: int, live: int, more: int) -> None:
        super().__init__(
            f"owner {owner!r} has {live:,} live queries and a quota of {limit:,}, so {more:,} more"
            " can't be; deregister some, or raise the quota. Nothing is registered"
        )
        self.owner = owner
        self.limit = limit
        self.live = live


class InvalidTableError(InvalidQueryError):
    """A table of queries has bad rows.

    Attributes
    ----------
    errors : pyarrow.Table
        One line for each bad row: ``row`` (from 0), ``id`` and ``reason``.
    """

    def __init__(self, message: str, errors: pa.Table) -> None:
        super().__init__(message)
        self.errors = errors


class InvalidNetworkError(EverqueryError, ValueError):
    """A network of boxes, or a change of a running one, can't be; names the box and the arrow."""


class RowsGoneError(EverqueryError, ValueError):
    """A window asks for rows that are kept no more."""


class AnswerTooLargeError(EverqueryError, ValueError):
    """An answer has more rows than are given at once."""


class UnknownQueryError(EverqueryError, KeyError):
    """No live query has this id."""

    def __str__(self) -> str:
        # KeyError would print the repr of the message.
        return str(self.args[0])


class UnknownStreamError(EverqueryError, KeyError):
    """The registry has no such stream."""

    def __str__(self) -> str:
        return str(self.args[0])


class RegistryError(EverqueryError):
    """The registry can't be opened, read or written."""


class RegistryBehindError(RegistryError):
    """Another writer came first; read its changes and try again."""


class RegistryLostError(RegistryError):
    """The registry lacks what a reader has read or has yet to read; waiting does not help."""


class RegistryDamagedError(RegistryError):
    """A row of the registry is missing, cut or changed; waiting does not help, a repair does.

    Attributes
    ----------
    stream : str or None
        Whose row it is, if it is a stream's.
    position : int or None
        Where it is in the stream's log.
    reason : str
        What is wrong with it.
    """

    def __init__(
        self,
        message: str,
        *,
        stream: str | None = None,
        position: int | None = None,
        reason: str = "",
    ) -> None:
        super().__init__(message)
        self.stream = stream
        self.position = position
        self.reason = reason or message


class ReaderBusyError(RegistryError):
    """Another process follows the log as this reader: two runs on one checkpoint."""


class SparkError(EverqueryError):
    """The Spark runtime can't start, or not like this."""


class SparkMissingError(SparkError, ImportError):
    """PySpark, or what it needs for standing queries, is not installed."""


class JavaMissingError(SparkError):
    """There is no Java here that Spark can run on."""


class JavaDiedError(SparkError):
    """The Java process that Spark ran on has ended, and with it all that ran there."""


class PlotMissingError(EverqueryError, ImportError):
    """Matplotlib, which draws pictures, is not installed."""


class KafkaError(EverqueryError):
    """Records of a topic can't be had: no broker answers, or it has none for us."""


class KafkaMissingError(KafkaError, ImportError):
    """The client that reads records, confluent-kafka, is not installed."""


class RecordsLostError(KafkaError):
    """Records that a job has yet to read are gone, or the topic is another one by now."""


class UnreadableFileError(EverqueryError, ValueError):
    """A file is not what its name says, is damaged, or lacks a column."""


class UnwritableFileError(EverqueryError, ValueError):
    """A file can't be written."""


class InvalidBatchError(EverqueryError, ValueError):
    """A batch of events lacks a column or has one of a wrong type."""


class HistoryError(EverqueryError, ValueError):
    """A part of a stream's past is not kept, is lost, or can't be written."""


class SnapshotError(EverqueryError, ValueError):
    """A snapshot is damaged, of another stream, or of a newer version."""


class EventsGoneError(SnapshotError):
    """State that was written by reference needs events that its source does not have any more."""


class TornEngineError(EverqueryError):
    """A call failed while it was changing an engine; a snapshot has to be restored."""
