# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Controllers written in Python."""
from alcc._errors import ScenarioError

# As in `typing`, whose import would cost more than all of this package.
TYPE_CHECKING = False

if TYPE_CHECKING:
    from alcc._alcc import Ack, Allowance


class Controller:
    """Base class of a congestion control. Every method returns a window in bytes or an alcc.Allowance.

    A simulation makes one object for each flow. on_ack is required. The other methods are called if
    they exist: on_start(path), on_loss(loss), on_timeout(timeout), on_timer(now_s). Until the first
    result the window is 10 segments; a window below one segment is one segment. A dictionary
    `gauges` of numbers becomes columns of the time series. The parameters of the constructor are
    options of the flow: "mine:gain=0.5".
    """

    #: True if the results have a rate, so that packets are paced.
    paced = False
    #: True if it reacts to Ack.marked_bytes: queues may mark its packets instead of dropping them.
    ecn = False

    def on_ack(self, ack: "Ack") -> "float | Allowance":
        """Called when packets are acknowledged."""
        raise NotImplementedError("a controller needs a method on_ack(self, ack)")


def options(controller):
    """The parameters of the constructor with their defaults, and the flags paced and ecn."""
    import inspect

    name = getattr(controller, "__qualname__", repr(controller))
    if not isinstance(controller, type) or not callable(getattr(controller, "on_ack", None)):
        raise ScenarioError(f"controller {name}: found no method on_ack: expected a class with one")
    flags = [getattr(controller, flag, False) for flag in ("paced", "ecn")]
    for flag, value in zip(("paced", "ecn"), flags):
        if not isinstance(value, bool):
            raise ScenarioError(f"controller {name}: {flag}: found {type(value).__name__}, expected True or False")
    try:
        signature = inspect.signature(controller)
    except (TypeError, ValueError):
        return [], *flags
    found = []
    for parameter in signature.parameters.values():
        if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD):
            continue
        if parameter.default is parameter.empty:
            raise ScenarioError(
                f"controller {name}: the parameter {parameter.name} has no default: give it one"
            )
        if parameter.kind is not parameter.POSITIONAL_ONLY:
            try:
                text = str(parameter.default)
            except Exception as error:
                why = f"the default of {parameter.name} cannot be written out: {type(error).__name__}: {error}"
                raise ScenarioError(f"controller {name}: {why}") from error
            found.append((parameter.name, text, parameter.default))
    return found, *flags


def read(default, text):
    """The value of an option, with the type of its default."""
    if isinstance(default, bool):
        if text not in ("yes", "no"):
            raise ValueError("yes or no")
        return text == "yes"
    for kind, expected in ((int, "a whole number"), (float, "a number")):
        if isinstance(default, kind):
            try:
                return kind(text)
            except ValueError:
                raise ValueError(expected) from None
    return text
