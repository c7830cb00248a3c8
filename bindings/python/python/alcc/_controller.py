# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Controllers written in Python."""
from alcc._errors import ScenarioError

# As in `typing`, whose import would cost more than all of this package.
TYPE_CHECKING = False

if TYPE_CHECKING:
    from alcc._alcc import Ack, Allowance


class Controller:
    """A congestion control. Every method answers with a window in bytes or with an alcc.Allowance.

    A simulation makes an object for each flow. on_ack is required. The others are called if they
    are there: on_start(path), on_loss(loss), on_timeout(timeout), on_timer(now_s). Until the first
    answer the window is 10 segments; a smaller window than one segment is one segment. A dictionary
    `gauges` of numbers becomes columns of the time series. The parameters of the constructor are
    options of the flow: "mine:gain=0.5".
    """

    #: The answers have a rate: packets are paced.
    paced = False
    #: It reacts to Ack.marked_bytes: its packets may be marked instead of dropped.
    ecn = False

    def on_ack(self, ack: "Ack") -> "float | Allowance":
        """Packets were acknowledged."""
        raise NotImplementedError("a controller needs a method on_ack(self, ack)")


def options(controller):
    """The parameters of the constructor with their defaults, and what it needs."""
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
    """The value of an option, of the type that its default has."""
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
