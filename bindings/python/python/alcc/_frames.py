# SPDX-License-Identifier: Apache-2.0 OR MIT
"""From Arrow tables to data frames, without copies of the numbers."""
from alcc._errors import MissingPackageError


def needed(module, what, extra):
    """Imports the module, or raises MissingPackageError that says how to install it."""
    import importlib

    try:
        return importlib.import_module(module)
    except ImportError as error:
        lacks = error.name or module
        raise MissingPackageError(
            f"{what} needs {lacks}, which is not installed: pip install 'alcc[{extra}]'", name=lacks
        ) from error


def to_polars(table):
    return needed("polars", "to_polars", "polars").DataFrame(table)


def to_pyarrow(table):
    return needed("pyarrow", "to_pyarrow", "pandas").table(table)


def to_pandas(table):
    pandas = needed("pandas", "to_pandas", "pandas")
    needed("pyarrow", "to_pandas", "pandas")
    return to_pyarrow(table).to_pandas(types_mapper=pandas.ArrowDtype)
