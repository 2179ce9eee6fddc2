"""From the flags of `tidelog load` to a load, and its summary."""

from __future__ import annotations

from collections.abc import Generator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import attrs
import click

from tidelog.kernel.cli.tables import print_json
from tidelog.plugins.spark_sink.load.directory import LoadDirectory
from tidelog.plugins.spark_sink.load.plan import LoadPlan
from tidelog.plugins.spark_sink.load.planning import check_plan, check_topics, make_plan
from tidelog.plugins.spark_sink.load.progress import LoadProgressBar
from tidelog.plugins.spark_sink.load.request import LoadRequest
from tidelog.plugins.spark_sink.load.run import ChunkWriter, Load, Summary
from tidelog.plugins.spark_sink.load.times import iso_time
from tidelog.plugins.spark_sink.option_values import InvalidOption


def execute(given: Mapping[str, Any]) -> None:
    """Run the load that the flags ask for, and print its summary.

    Raises:
        LoadFailed: it is not complete; started again, it continues.
        click.UsageError: the flags contradict each other, or a value is malformed.
    """
    request, local_log_dirs = request_of(given), _local_log_dirs(given["local_log_dirs"])
    bootstrap, skip_deleted = given["bootstrap"], given["skip_deleted"]
    try:
        options = request.parsed(bootstrap, skip_deleted=skip_deleted)
    except InvalidOption as error:
        raise click.UsageError(f"{error}.") from error
    directory = LoadDirectory(given["target"])

    @contextmanager
    def writer(plan: LoadPlan) -> Generator[ChunkWriter]:
        # Only here: an error of a lookup is there at once, without waiting for Spark.
        from tidelog.plugins.spark_sink.load.spark import SparkChunks, spark_session

        with spark_session(given["conf"], directory.spark_log) as session:
            chunks = SparkChunks(session, request, bootstrap, plan.task_records)
            chunks.read_with(failOnDataLoss=str(not skip_deleted).lower(), **local_log_dirs)
            yield chunks

    with LoadProgressBar() as progress:
        summary = Load(
            directory=directory,
            identity=request.identity(),
            make_plan=lambda: make_plan(request, options, given["task_records"], given["chunk_records"]),
            check_plan=lambda plan, remaining: check_plan(plan, remaining, options),
            check_topics=lambda plan: check_topics(plan, options),
            writer=writer,
            progress=progress,
            overwrite=given["overwrite"],
        ).run()
    _show(summary, directory, as_json=given["as_json"])


def request_of(given: Mapping[str, Any]) -> LoadRequest:
    """Return what the flags ask for.

    Raises:
        click.UsageError: they contradict each other.
    """
    if bool(given["topics"]) == (given["pattern"] is not None):
        raise click.UsageError("Name topics, or a --pattern of their names.")
    for end in ("from", "to"):
        if given[f"{end}_time"] is not None and given[f"{end}_offsets"] is not None:
            raise click.UsageError(f"Give one of --{end}-time and --{end}-offsets.")
    start, stop = given["from_time"], given["to_time"]
    if start is not None and stop is not None and int(start) >= int(stop):
        raise click.UsageError(f"--from-time {iso_time(start)} is not before --to-time {iso_time(stop)}.")
    names = ("from_time", "to_time", "from_offsets", "to_offsets")
    flags = {f"--{name.replace('_', '-')}": given[name] for name in names if given[name] is not None}
    return LoadRequest(
        topics=tuple(sorted(set(given["topics"]))),
        pattern=given["pattern"],
        limits=flags,
        format=given["file_format"],
        partition_by=given["partition_by"],
        select=given["select"],
        headers=not given["no_headers"],
        write_options=given["write_options"],
        source_options={**given["command_config"], **given["source_options"]},
        settings={name: value for name, value in given["conf"].items() if name.startswith("spark.sql.")},
    )


def _local_log_dirs(given: tuple[str, ...]) -> dict[str, str]:
    folders = [str(Path(folder).absolute()) for folder in given]
    missing = next((folder for folder in folders if not Path(folder).is_dir()), None)
    if missing is not None:
        raise click.UsageError(f"--local-log-dir: there is no directory {missing}.")
    return {"localLogDirs": ",".join(folders)} if folders else {}


def _show(summary: Summary, directory: LoadDirectory, *, as_json: bool) -> None:
    if as_json:
        print_json({"directory": str(directory.path), **attrs.asdict(summary)})
        return
    topics = f"{summary.topics} topic{'s' * (summary.topics != 1)}"
    partitions = f"{summary.partitions} partition{'s' * (summary.partitions != 1)}"
    if summary.chunks_before == summary.chunks:
        click.echo(f"The load was already complete: {summary.records} records in {summary.files} files.")
        return
    click.echo(
        f"Loaded {summary.records} records of {topics} ({partitions}) into {summary.files} files with "
        f"{summary.size_bytes} bytes in {directory.path}. This start took {summary.seconds:.1f} s."
    )
    if summary.chunks_before:
        click.echo(f"{summary.chunks_before} of {summary.chunks} chunks were there from earlier starts.")
