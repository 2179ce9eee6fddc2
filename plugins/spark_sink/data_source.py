"""The format `tidelog`, as Spark sees it."""

from __future__ import annotations

from pyspark.sql.datasource import (
    DataSource,
    DataSourceReader,
    DataSourceStreamReader,
    DataSourceStreamWriter,
    DataSourceWriter,
)
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    IntegerType,
    LongType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from tidelog.plugins.spark_sink.option_values import InvalidOption, warn_of_options
from tidelog.plugins.spark_sink.source.batch_reader import BatchReader
from tidelog.plugins.spark_sink.source.options import NAMES as SOURCE_NAMES
from tidelog.plugins.spark_sink.source.options import SourceOptions, parse_options
from tidelog.plugins.spark_sink.source.stream_reader import StreamReader
from tidelog.plugins.spark_sink.writer.options import NAMES as WRITER_NAMES
from tidelog.plugins.spark_sink.writer.writers import batch_writer, stream_writer

_HEADERS = ArrayType(StructType([StructField("key", StringType()), StructField("value", BinaryType())]))
_COLUMNS = [
    StructField("key", BinaryType()),
    StructField("value", BinaryType()),
    StructField("topic", StringType()),
    StructField("partition", IntegerType()),
    StructField("offset", LongType()),
    StructField("timestamp", TimestampType()),
    StructField("timestampType", IntegerType()),
]


class TidelogDataSource(DataSource):
    """Topics of a Kafka cluster, with the rows and options of Spark's own Kafka source and sink.

    A table has one set of options for reading and writing, so each takes those of the other.
    """

    @classmethod
    def name(cls) -> str:
        """Return the name of the format."""
        return "tidelog"

    def schema(self) -> StructType:
        """Return the columns; those of headers only if the options ask for them."""
        given = {name.lower(): text for name, text in self.options.items()}
        include_headers = given.get("includeheaders", "false").strip().lower() == "true"
        return StructType([*_COLUMNS, StructField("headers", _HEADERS)] if include_headers else _COLUMNS)

    def reader(self, schema: StructType) -> DataSourceReader:
        """Return the reader of a batch query.

        Raises:
            InvalidOption: an option is unknown, missing or wrong, or the user gave a schema.
        """
        parsed = self._parsed(schema, streaming=False)
        warn_of_options(parsed.without_effect)
        return BatchReader(parsed)

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802 - Spark's name
        """Return the reader of a streaming query.

        Raises:
            InvalidOption: an option is unknown, missing or wrong, or the user gave a schema.
        """
        return StreamReader(self._parsed(schema, streaming=True))

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceWriter:
        """Return the writer of a batch query.

        Raises:
            InvalidColumns: a column is missing, or has another type.
            InvalidOption: an option is unknown, missing or wrong, or the mode is `overwrite`.
        """
        return batch_writer(self.options, schema, overwrite=overwrite, also=SOURCE_NAMES)

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamWriter:  # noqa: N802
        """Return the writer of a streaming query.

        Raises:
            InvalidColumns: a column is missing, or has another type.
            InvalidOption: an option is unknown, missing or wrong, or the output mode is `complete`.
        """
        return stream_writer(self.options, schema, overwrite=overwrite, also=SOURCE_NAMES)

    def _parsed(self, schema: StructType, *, streaming: bool) -> SourceOptions:
        if schema != self.schema():
            raise InvalidOption(
                "the format tidelog has a schema of its own: leave out .schema(...), and select the columns"
            )
        return parse_options(self.options, streaming=streaming, also=WRITER_NAMES)
