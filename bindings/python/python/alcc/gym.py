# SPDX-License-Identifier: Apache-2.0 OR MIT
"""A Gymnasium environment: an agent sets the window of a flow, step by step."""
import math

from alcc._alcc import Simulation, one_line
from alcc._errors import RewardError, ScenarioError
from alcc._frames import needed

gymnasium = needed("gymnasium", "alcc.gym", "gym")
np = needed("numpy", "alcc.gym", "gym")

#: Payload of a datagram in a packet of 1500 bytes.
MSS = 1472
#: Bounds of the window, bytes: one segment and 64 MiB.
WINDOWS = (MSS, 64 << 20)
#: Values of an observation, in order.
OBSERVATIONS = (
    "throughput_mbps",
    "rtt_ms",
    "min_rtt_ms",
    "loss",
    "window_segments",
    "in_flight_segments",
)


class Env(gymnasium.Env):
    """One flow called "external" on a simulated path, with other flows beside it.

    action: an array with one number from -1 to 1; values beyond are clipped. The window is
    multiplied by 2 to this power.
    observation: OBSERVATIONS, over the step, as the sender sees them: acknowledged payload in
    Mbit/s, last and smallest round-trip time in ms, packets found lost / packets that left the
    network, window and bytes in flight in segments. Round-trip times are 0 before the first one is
    known. With oracle=True, throughput and loss are those of the bottleneck at that
    moment, which a sender cannot know.
    reward: log(throughput) - log(rtt / smallest rtt) - 10 * loss, or the result of the function
    `reward` of a dictionary of the observations.

    step: simulated time between two actions. The other arguments are those of alcc.simulate;
    `flow` are the other flows.

    reset(seed=N) seeds the scenario and the generator np_random. Without a seed each episode draws
    its scenario's seed from np_random, so losses and synthetic channels differ from episode to
    episode. reset(options={"link": "24mbit", "queue": "codel"}) changes arguments of alcc.simulate
    for this episode; "step" is the time between actions there, too. Invalid options change nothing.
    Changes of a link are part of it: link={"rate": "12mbit", "step": "5s:rate=4mbit"}.

    Registered as "alcc/Flow-v0" for gymnasium.make and make_vec once alcc.gym is imported.

    Raises ScenarioError for wrong arguments and options. step raises
    gymnasium.error.InvalidAction for another shape and for NaN. It raises ResetNeeded
    before the first reset and after the end of an episode. It raises RewardError for a reward that
    raises or is not a finite number.
    """

    metadata = {"render_modes": []}

    def __init__(
        self, *, step="20ms", flow=(), reward=None, oracle=False, render_mode=None, **options
    ):
        if render_mode is not None:
            raise ScenarioError(f"render_mode: found {_shown(render_mode)}, expected None")
        if reward is not None and not callable(reward):
            raise ScenarioError(
                f"reward: found {type(reward).__name__}, expected a function of a dictionary of the observations"
            )
        if not isinstance(flow, (str, type, list, tuple)):
            raise ScenarioError(
                f"flow: found {type(flow).__name__}, expected the other flows: a text, a class or a list of these"
            )
        company = list(flow) if isinstance(flow, (list, tuple)) else [flow]
        self._options = dict(options, flow=["external", *company])
        self._step = step
        self._reward = reward or default_reward
        self._oracle = bool(oracle)
        # Seed of the first episode, unless its reset has one.
        self._first_seed = options.get("seed")
        most = np.finfo(np.float32).max
        self.action_space = gymnasium.spaces.Box(-1.0, 1.0, (1,), np.float32)
        self.observation_space = gymnasium.spaces.Box(0.0, most, (len(OBSERVATIONS),), np.float32)
        self._simulation = None
        # Checks the arguments here and not in the first reset.
        Simulation(**self._options).step(step)

    def reset(self, *, seed=None, options=None):
        if seed is None and self._first_seed is not None:
            seed = self._first_seed
        chosen = self._chosen(options)
        step = chosen.pop("step", self._step)
        is_number = isinstance(seed, int) and seed >= 0
        if options or is_number:
            # Invalid options are refused before anything is seeded.
            trial = dict(self._options, seed=seed if is_number else 0, **chosen)
            Simulation(**trial).step(step)
        super().reset(seed=seed)
        self._first_seed = None
        drawn = int(self.np_random.integers(1 << 32)) if seed is None else seed
        simulation = Simulation(**dict(self._options, seed=drawn, **chosen))
        simulation.step(step)
        self._simulation, self._span = simulation, step
        self._window = float(10 * MSS)
        self._min_rtt = math.inf
        self._before = (0.0, 0, 0, 0)
        return self._observe()[0], {"seed": drawn}

    def _chosen(self, options):
        if options is None:
            return {}
        if not isinstance(options, dict) or not all(isinstance(name, str) for name in options):
            raise ScenarioError(f"options: found {_shown(options)}, expected a dictionary of arguments of alcc.simulate")
        for name in ("seed", "flow"):
            if name in options:
                raise ScenarioError(f"options: {name} stays: use reset(seed=N), and Env(flow=...) for other flows")
        return dict(options)

    def step(self, action):
        if self._simulation is None:
            raise gymnasium.error.ResetNeeded("alcc.gym.Env.step: call reset first")
        if self._simulation.is_over:
            raise gymnasium.error.ResetNeeded("alcc.gym.Env.step: the episode is over: call reset first")
        window = self._window * 2.0 ** _power(action)
        self._window = min(max(window, WINDOWS[0]), WINDOWS[1])
        self._simulation.set_window(self._window)
        goes_on = self._simulation.step(self._span)
        observation, values = self._observe()
        reward = self._rewarded(dict(zip(OBSERVATIONS, values)))
        # The end of the window truncates the episode; the task has no terminal state.
        return observation, reward, False, not goes_on, {}

    @property
    def simulation(self):
        """The alcc.Simulation of this episode: now_s, result() and so on."""
        return self._simulation

    def _rewarded(self, seen):
        try:
            answer = self._reward(seen)
        except (Exception, SystemExit) as error:
            self._no_reward(f"it raised {type(error).__name__}: {error}", error)
        reward = _number(answer)
        if not math.isfinite(reward):
            self._no_reward(f"it answered {_shown(answer)}: expected a finite number")
        return reward

    def _no_reward(self, what, cause=None):
        name = getattr(self._reward, "__qualname__", type(self._reward).__qualname__)
        text = f"reward {name} at {self._simulation.now_s:.6f}s: {what}"
        raise RewardError(one_line(text)) from cause

    def _observe(self):
        status = self._simulation.flow(0)
        now, delivered_before, packets_before, lost_before = self._before
        if self._oracle:
            delivered, packets, lost = status.delivered_bytes, status.sent, status.dropped
        else:
            delivered, lost = status.acked_bytes, status.lost
            packets = lost + delivered // MSS
        self._before = (self._simulation.now_s, delivered, packets, lost)
        elapsed = max(self._before[0] - now, 1e-9)
        rtt = status.rtt_ms or 0.0
        if rtt > 0.0:
            self._min_rtt = min(self._min_rtt, rtt)
        lost = max(lost - lost_before, 0)
        values = (
            max(delivered - delivered_before, 0) * 8e-6 / elapsed,
            rtt,
            self._min_rtt if rtt > 0.0 else 0.0,
            min(lost / max(packets - packets_before, 1), 1.0),
            self._window / MSS,
            status.in_flight_bytes / MSS,
        )
        return np.array(values, np.float32), values


def _number(value):
    """The value as a float; NaN if it is not a number. A text is not a number."""
    try:
        return math.nan if isinstance(value, (str, bytes)) else float(value)
    except (TypeError, ValueError, OverflowError):
        return math.nan


def _shown(value):
    # Cut, because it may be the output of a network for many environments.
    try:
        return " ".join(repr(value).split())[:60]
    except Exception:
        return "an object"


def _power(action):
    try:
        one = len(action) == 1 and not isinstance(action, dict)
        power = _number(action[0]) if one else math.nan
    except (TypeError, LookupError):
        power = math.nan
    if math.isnan(power):
        raise gymnasium.error.InvalidAction(
            f"alcc.gym.Env.step: found {_shown(action)}, expected one number from -1 to 1 in an array"
        )
    return min(max(power, -1.0), 1.0)


if "alcc/Flow-v0" not in gymnasium.registry:
    gymnasium.register("alcc/Flow-v0", entry_point="alcc.gym:Env")


def default_reward(seen):
    """log(throughput) - log(rtt / smallest rtt) - 10 * loss."""
    rtt, least = seen["rtt_ms"], seen["min_rtt_ms"]
    delay = math.log(rtt / least) if least > 0.0 else 0.0
    return math.log(max(seen["throughput_mbps"], 1e-3)) - delay - 10.0 * seen["loss"]
