# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Many simulations, here or on a cluster, with results in Parquet files."""
import contextlib
import itertools
import json
import os
import time
import uuid

from alcc._alcc import Stop, __version__, simulate_until, table_of_error, table_of_json
from alcc._errors import ScenarioError, SimulationError
from alcc._frames import needed
from alcc._key import Keys

# As in `typing`, whose import would cost more than all of this package.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from typing import Any

#: Seconds without a worker after which a sweep on a cluster ends.
NO_WORKER = 300
#: Seconds between two checks for a worker.
_LOOK = 1.0
#: Seconds between two checks for results.
_POLL = 0.02


def sweep(
    grid: "Mapping[str, Iterable[Any]] | Iterable[Mapping[str, Any]]",
    *,
    out: "str | os.PathLike[str]",
    client: "Any" = None,
    again: bool = False,
    **common: "Any",
) -> "Sweep":
    """Runs alcc.simulate for every case of `grid` and stores the rows as Parquet files in `out`.

    grid: a dictionary of lists, where every combination is a case, or a list of dictionaries, where
    each is a case.
    out: the folder of the files; it is created if necessary.
    client: a dask.distributed.Client. Without one, threads of this process run the cases. Workers
    need this package but no common file system. The sweep fails if there is no worker for five
    minutes; if workers start later, call client.wait_for_workers(1) first.
    again: also run the cases again that failed in an earlier call.
    common: arguments of every case, as of alcc.simulate.

    A case whose file exists is not run again, so the same call continues a sweep that was stopped.
    If a worker dies, other workers run its cases. A case that fails, or that kills several workers,
    has a row with `error`.

    The arguments of a case are columns of its rows: numbers as numbers, everything else as text. An
    argument with the name of a measured field, such as loss, is the column axis_loss; link, queue,
    flow and seed are fields of every row.

    Returns a Sweep. Raises ScenarioError for an invalid grid, SimulationError for a client that
    fails and for a file that cannot be written.
    """
    parquet = needed("pyarrow.parquet", "alcc.sweep", "sweep")
    cases = [dict(common, **case) for case in expand(grid)]
    if not isinstance(out, (str, os.PathLike)):
        raise ScenarioError(f"sweep: out: found {type(out).__name__}, expected the name of a folder")
    if client is not None and not hasattr(client, "submit"):
        raise ScenarioError(f"sweep: client: found {type(client).__name__}, expected a dask.distributed.Client")
    try:
        os.makedirs(out, exist_ok=True)
    except (OSError, ValueError) as error:
        raise ScenarioError(f"sweep: out: no folder can be made: {_one_line(error)}") from error
    names = Keys()
    keys = [names.key(case) for case in cases]
    files = [os.path.join(out, key + ".parquet") for key in keys]
    if len(set(files)) < len(files):
        raise ScenarioError("sweep: two cases of the grid are the same: leave one out")
    todo = {}
    for number, path in enumerate(files):
        if not os.path.exists(path) or (again and _error(_read(parquet, path))):
            todo[number] = cases[number]
    # Running cases end with this function, also after an exception.
    with contextlib.closing(_runs(todo, keys, client)) as runs:
        for number, text, error in runs:
            table = table_of_json(text) if error is None else _failed(cases[number], error)
            table = _with_axes(table.to_pyarrow(), cases[number])
            about = json.loads(text)["about"] if error is None else {"program": f"alcc {__version__}"}
            table = table.replace_schema_metadata({"about": json.dumps(about)})
            _write(parquet, table, files[number])
    return Sweep(cases, files, [_read(parquet, path) for path in files], len(todo))


class Sweep:
    """The rows of a sweep, in the order of its grid."""

    def __init__(self, cases, files, tables, ran):
        #: The arguments of each case.
        self.cases: "list[dict[str, Any]]" = cases
        #: The Parquet file of each case.
        self.files: "list[str]" = files
        #: Number of cases that this call ran; the others had a file.
        self.ran: int = ran
        self._tables = tables

    def __len__(self) -> int:
        return len(self.cases)

    def __repr__(self):
        return f"<alcc.Sweep of {len(self)} cases, {self.ran} run now, {len(self.errors)} failed>"

    @property
    def errors(self) -> "list[tuple[dict[str, Any], str]]":
        """The cases that failed: (arguments, error)."""
        found = ((case, _error(table)) for case, table in zip(self.cases, self._tables))
        return [(case, why) for case, why in found if why]

    def to_pyarrow(self) -> "Any":
        """All rows as a pyarrow.Table; the column `case` is the number of the case, from 0."""
        arrow = needed("pyarrow", "alcc.sweep", "sweep")
        types = {}
        for table in self._tables:
            for field in table.schema:
                types.setdefault(field.name, set()).add(field.type)
        texts = arrow.string()
        mixed = {name for name, found in types.items() if texts in found and len(found) > 1}

        def numbered(number, table):
            for name in mixed.intersection(table.column_names):
                at = table.column_names.index(name)
                table = table.set_column(at, name, table[name].cast(texts))
            return table.add_column(0, "case", arrow.array([number] * len(table), arrow.uint64()))

        # Metadata describe the rows of one file only.
        plain = (table.replace_schema_metadata(None) for table in self._tables)
        tables = [numbered(*both) for both in enumerate(plain)]
        return arrow.concat_tables(tables, promote_options="permissive")

    def to_polars(self) -> "Any":
        """All rows as a polars.DataFrame, see to_pyarrow()."""
        return needed("polars", "to_polars", "polars").DataFrame(self.to_pyarrow())

    def to_pandas(self) -> "Any":
        """All rows as a pandas.DataFrame, see to_pyarrow()."""
        pandas = needed("pandas", "to_pandas", "pandas")
        return self.to_pyarrow().to_pandas(types_mapper=pandas.ArrowDtype)


def expand(grid):
    """The cases of a grid."""
    if not isinstance(grid, dict):
        cases = list(grid) if hasattr(grid, "__iter__") else []
        if not cases or not all(isinstance(case, dict) for case in cases):
            raise ScenarioError("sweep: expected a dictionary of lists, or a list of dictionaries with a case each")
        for case in cases:
            _names(case)
        return cases
    if not grid:
        raise ScenarioError("sweep: found an empty grid, expected at least one list of values")
    _names(grid)
    for name, values in grid.items():
        if isinstance(values, (str, bytes)) or not hasattr(values, "__iter__"):
            raise ScenarioError(f"sweep: {name}: found one value, expected a list; one for all is an argument of sweep")
    values = [list(of) for of in grid.values()]
    for name, of in zip(grid, values):
        if not of:
            raise ScenarioError(f"sweep: {name}: found an empty list, expected at least one value")
    return [dict(zip(grid, of)) for of in itertools.product(*values)]


def _names(case):
    for name in case:
        if not isinstance(name, str):
            raise ScenarioError(f"sweep: found an argument named {name!r:.60}, expected texts such as 'link'")


def _run(case, stop=None):
    """Runs a case in a worker: the rows, or the error."""
    try:
        return simulate_until(stop or Stop(), **case).to_json(), None
    except Exception as error:
        return None, f"{type(error).__name__}: {_one_line(error)}"


def _runs(todo, keys, client):
    """Yields (number, rows, error) of every case, in the order of completion."""
    if client is None:
        from concurrent.futures import ThreadPoolExecutor, as_completed

        stop = Stop()
        with ThreadPoolExecutor(os.cpu_count()) as pool:
            numbers = {pool.submit(_run, case, stop): number for number, case in todo.items()}
            try:
                for future in as_completed(numbers):
                    yield numbers[future], *future.result()
            except BaseException:
                # Leaving this block waits for those that run.
                stop.set()
                pool.shutdown(wait=False, cancel_futures=True)
                raise
        return
    distributed = needed("distributed", "alcc.sweep with a client", "sweep")
    # The scheduler may still be cancelling the same cases of an earlier sweep.
    sweep = uuid.uuid4().hex
    try:
        numbers = {
            client.submit(_run, case, key=f"alcc-{sweep}-{keys[number]}", pure=True): number
            for number, case in todo.items()
        }
    except Exception as error:
        why = f"{type(error).__name__}: {_one_line(error)}"
        raise SimulationError(f"sweep: the client took no case: {why}") from error

    def came(future):
        try:
            return future.result()
        except distributed.KilledWorker as error:
            return None, f"KilledWorker: {_one_line(error)}", True
        except Exception as error:
            # The case is not the cause: it has no row, and the next sweep runs it.
            why = f"{type(error).__name__}: {_one_line(error)}"
            raise SimulationError(f"sweep: no worker could run case {numbers[future]}: {why}") from error

    suspects = {}
    try:
        for future in _come(distributed, client, list(numbers)):
            text, error, *killed = came(future)
            if killed:
                suspects[numbers[future]] = error
            else:
                yield numbers[future], text, error
        # Dask blames all cases of a worker that died, so each of several suspects is run alone.
        for number, error in suspects.items():
            text = None
            if len(suspects) > 1:
                alone = client.submit(_run, todo[number], key=f"alcc-{sweep}-{keys[number]}-alone", pure=True)
                numbers[alone] = number
                [alone] = _come(distributed, client, [alone])
                text, error, *_ = came(alone)
            yield number, text, error
    finally:
        client.cancel(list(numbers))


def _come(distributed, client, futures):
    """Yields the futures as they complete; raises SimulationError after NO_WORKER s without a worker."""
    coming = distributed.as_completed(futures)
    seen = looked = time.monotonic()
    while not coming.is_empty():
        batch = coming.next_batch(block=False)
        yield from batch
        now = time.monotonic()
        if batch:
            seen = now
            continue
        time.sleep(_POLL)
        if now - looked < _LOOK:
            continue
        looked = now
        if client.nthreads():
            seen = now
        elif now - seen >= NO_WORKER:
            raise SimulationError(
                f"sweep: wait for {coming.count()} cases: the cluster has had no worker for {NO_WORKER} s: "
                "start workers, and the same call continues"
            )


def _one_line(error):
    return " ".join(str(error).split())


def _text(value):
    if isinstance(value, (list, tuple)):
        return " ".join(_text(of) for of in value)
    name = getattr(value, "name", None)
    return name if isinstance(name, str) else str(getattr(value, "__name__", value))


#: Arguments that are fields of every row.
_FIELDS = ("link", "queue", "flow", "seed")
#: Arguments with a column of the configured value. It is empty in the row of a failed case.
_CONFIGURED = {
    "loss": "axis_loss",
    "loss_up": "loss_up",
    "up": "up",
    "radio": "radio",
    "radio_up": "radio_up",
    "steps": "steps",
    "wake": "wake",
}


def _with_axes(table, case):
    """The rows with the arguments of their case."""
    arrow = needed("pyarrow", "alcc.sweep", "sweep")
    for name, value in case.items():
        if name in _FIELDS:
            continue
        is_number = isinstance(value, (int, float)) and not isinstance(value, bool)
        value = value if is_number else _text(value)
        configured = _CONFIGURED.get(name)
        if configured:
            at = table.column_names.index(configured)
            if table[at].null_count == len(table):
                with contextlib.suppress(arrow.ArrowInvalid):
                    cells = arrow.array([value] * len(table)).cast(table.schema.field(at).type)
                    table = table.set_column(at, configured, cells)
            continue
        column = f"axis_{name}" if name in table.column_names else name
        table = table.append_column(column, arrow.array([value] * len(table)))
    return table


def _failed(case, error):
    def text(name, default):
        return _text(case.get(name, default))

    seed = case.get("seed", 1)
    return table_of_error(
        link=text("link", ""),
        flow=text("flow", ""),
        seed=seed if isinstance(seed, int) and 0 <= seed < 1 << 64 else 0,
        error=error,
    )


def _error(table):
    return next((why for why in table["error"].to_pylist() if why), None)


def _read(parquet, path):
    try:
        return parquet.read_table(path)
    except (OSError, ValueError) as error:
        raise ScenarioError(
            f"sweep: {path}: cannot be read ({_one_line(error)}): remove it, and its case is run again"
        ) from error


def _write(parquet, table, path):
    """Writes the file atomically, also if the process dies or another one writes it."""
    own = f"{path}.{os.urandom(8).hex()}.tmp"
    try:
        parquet.write_table(table, own)
        os.replace(own, path)
    except OSError as error:
        with contextlib.suppress(OSError):
            os.remove(own)
        raise SimulationError(
            f"sweep: {path}: cannot be written ({_one_line(error)}): the cases before have their files; "
            "make room, and the same call continues"
        ) from error
