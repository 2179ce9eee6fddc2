"""What is read out of the long texts that Spark raises."""

from __future__ import annotations

import pytest

from tidelog.plugins.spark_sink.load.spark import failure_text

OF_A_TASK = """An error occurred while calling o99.save.
: org.apache.spark.SparkException: Job aborted due to stage failure: Task 0 in stage 1.0 failed 4 times
Traceback (most recent call last):
  File "source/reading.py", line 12, in read_range
tidelog.plugins.spark_sink.source.errors.DataLost: offsets 0 to 2 of t-0 cannot be read: its log begins at 3
"""


@pytest.mark.parametrize(
    ("raised", "text"),
    [
        (OF_A_TASK, "offsets 0 to 2 of t-0 cannot be read: its log begins at 3"),
        (
            "An error occurred while calling o1068.save.\n: org.apache.spark.X: [NOT_FOUND] No x.\n\tat y",
            "[NOT_FOUND] No x.",
        ),
        ("[NO_COLUMN] A column cannot be resolved.\n'Project", "[NO_COLUMN] A column cannot be resolved."),
        ("", "RuntimeError"),
    ],
)
def test_failure_text_is_the_cause_alone(raised: str, text: str) -> None:
    assert failure_text(RuntimeError(raised)) == text
