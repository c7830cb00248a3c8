# SPDX-License-Identifier: Apache-2.0 OR MIT
"""The exceptions of alcc. Each message is one line: what, on what, what was found, what would be right."""


class Error(Exception):
    """Base class of the exceptions of this module."""


class ScenarioError(Error, ValueError):
    """The arguments are invalid or contradict each other."""


class SimulationError(Error, RuntimeError):
    """A run failed: too many events, a simulation that had failed before."""


class MissingPackageError(Error, ImportError):
    """A call needs a package that is not installed: `name` is the module."""


class ControllerError(Error, RuntimeError):
    """A controller raised an exception (its __cause__) or gave an answer that is none."""


class RewardError(Error, RuntimeError):
    """A reward of alcc.gym.Env raised an exception (its __cause__) or was no finite number."""


class InternalError(Error, RuntimeError):
    """A defect in alcc."""
