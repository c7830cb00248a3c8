# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Congestion control for mobile links: simulate it, write your own, compare.

    import alcc
    r = alcc.simulate(link="lte", flow=["verus", "cubic"], duration="60s")
    print(r.flows.to_polars())

This package requires no other one. `alcc.gym` needs gymnasium, `alcc.sweep` needs PyArrow and can use
Dask, `Result.plot` needs matplotlib, and tables can be converted for Polars, pandas and PyArrow.
"""
from alcc._alcc import (
    Ack,
    Allowance,
    FlowStatus,
    Loss,
    Path,
    Result,
    Simulation,
    Table,
    Timeout,
    Trace,
    __version__,
    algorithms,
    option_names,
    simulate,
    synthetic_traces,
    trace,
)
from alcc._controller import Controller
from alcc._errors import (
    ControllerError,
    Error,
    InternalError,
    MissingPackageError,
    RewardError,
    ScenarioError,
    SimulationError,
)

# As in `typing`, whose import would cost more than all of this package.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from alcc._sweep import sweep

__all__ = [
    "Ack",
    "Allowance",
    "Controller",
    "ControllerError",
    "Error",
    "FlowStatus",
    "InternalError",
    "Loss",
    "MissingPackageError",
    "Path",
    "Result",
    "RewardError",
    "ScenarioError",
    "Simulation",
    "SimulationError",
    "Table",
    "Timeout",
    "Trace",
    "__version__",
    "algorithms",
    "option_names",
    "simulate",
    "sweep",
    "synthetic_traces",
    "trace",
]


def __getattr__(name):
    # Rarely used modules are loaded on demand.
    if name == "sweep":
        from alcc._sweep import sweep

        return sweep
    raise AttributeError(f"module 'alcc' has no attribute {name!r}")


def __dir__():
    return sorted({*globals(), *__all__})
