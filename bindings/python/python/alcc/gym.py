# SPDX-License-Identifier: Apache-2.0 OR MIT
"""A Gymnasium environment: an agent sets the window of a flow, step by step."""
import math

from alcc._alcc import Simulation
from alcc._errors import ScenarioError
from alcc._frames import needed

gymnasium = needed("gymnasium", "alcc.gym", "gym")
np = needed("numpy", "alcc.gym", "gym")

#: Payload of a datagram in a packet of 1500 bytes.
MSS = 1472
#: Bounds of the window, bytes: one segment and 64 MiB.
WINDOWS = (MSS, 64 << 20)
#: What an observation has, in order.
OBSERVATIONS = (
    "throughput_mbps",
    "rtt_ms",
    "min_rtt_ms",
    "loss",
    "window_segments",
    "in_flight_segments",
)


class Env(gymnasium.Env):
    """One flow called "external" on a simulated path; further flows are its company.

    action: one number from -1 to 1, beyond that the nearest of these; the window is multiplied by 2
    to this power.
    observation: OBSERVATIONS, over the step: throughput at the bottleneck in Mbit/s, last and
    smallest round-trip time in ms, lost / sent packets, window and bytes in flight in segments.
    reward: log(throughput) - log(rtt / smallest rtt) - 10 * loss, or what `reward` makes of a
    dictionary of the observations.

    step: simulated time between two actions. The other arguments are those of alcc.simulate;
    `flow` are the other flows. reset(seed=N) is the seed of the scenario.

    Raises ScenarioError for wrong arguments; step raises gymnasium.error.InvalidAction for what is
    no number, and ResetNeeded before the first reset and after the end of an episode.
    """

    metadata = {"render_modes": []}

    def __init__(self, *, step="20ms", flow=(), reward=None, **options):
        if reward is not None and not callable(reward):
            raise ScenarioError(
                f"reward: found {type(reward).__name__}, expected a function of a dictionary of the observations"
            )
        company = [flow] if isinstance(flow, (str, type)) else list(flow)
        self._options = dict(options, flow=["external", *company])
        self._step = step
        self._reward = reward or default_reward
        self._seed = options.get("seed", 1)
        most = np.finfo(np.float32).max
        self.action_space = gymnasium.spaces.Box(-1.0, 1.0, (1,), np.float32)
        self.observation_space = gymnasium.spaces.Box(0.0, most, (len(OBSERVATIONS),), np.float32)
        self._simulation = None
        # A wrong argument is found here and not in the first reset.
        if not isinstance(step, str):
            raise ScenarioError(f'step: found {type(step).__name__}, expected a time such as "20ms"')
        Simulation(**self._options).step(step)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        if seed is not None:
            self._seed = seed
        self._simulation = Simulation(**dict(self._options, seed=self._seed))
        self._window = float(10 * MSS)
        self._min_rtt = math.inf
        self._before = (0.0, 0, 0, 0)
        self._simulation.step(self._step)
        return self._observe()[0], {}

    def step(self, action):
        if self._simulation is None:
            raise gymnasium.error.ResetNeeded("alcc.gym.Env.step: call reset first")
        if self._simulation.is_over:
            raise gymnasium.error.ResetNeeded("alcc.gym.Env.step: the episode is over: call reset first")
        window = self._window * 2.0 ** _power(action)
        self._window = min(max(window, WINDOWS[0]), WINDOWS[1])
        self._simulation.set_window(self._window)
        goes_on = self._simulation.step(self._step)
        observation, values = self._observe()
        reward = float(self._reward(dict(zip(OBSERVATIONS, values))))
        # The end of the window is a limit of time and no end of the task.
        return observation, reward, False, not goes_on, {}

    @property
    def simulation(self):
        """The alcc.Simulation of this episode: now_s, result() and so on."""
        return self._simulation

    def _observe(self):
        status = self._simulation.flow(0)
        now, delivered, sent, dropped = self._before
        self._before = (
            self._simulation.now_s,
            status.delivered_bytes,
            status.sent,
            status.dropped,
        )
        elapsed = max(self._before[0] - now, 1e-9)
        rtt = status.rtt_ms or 0.0
        if rtt > 0.0:
            self._min_rtt = min(self._min_rtt, rtt)
        lost = max(status.dropped - dropped, 0)
        values = (
            (status.delivered_bytes - delivered) * 8e-6 / elapsed,
            rtt,
            self._min_rtt if rtt > 0.0 else 0.0,
            min(lost / max(status.sent - sent, 1), 1.0),
            self._window / MSS,
            status.in_flight_bytes / MSS,
        )
        return np.array(values, np.float32), values


def _power(action):
    try:
        power = float(action[0])
    except (TypeError, ValueError, LookupError, OverflowError):
        power = math.nan
    if math.isnan(power):
        # It may be what a network gave for many environments: its beginning will do.
        found = " ".join(repr(action).split())[:60]
        raise gymnasium.error.InvalidAction(
            f"alcc.gym.Env.step: found {found}, expected one number from -1 to 1 in an array"
        )
    return min(max(power, -1.0), 1.0)


def default_reward(seen):
    """log(throughput) - log(rtt / smallest rtt) - 10 * loss."""
    rtt, least = seen["rtt_ms"], seen["min_rtt_ms"]
    delay = math.log(rtt / least) if least > 0.0 else 0.0
    return math.log(max(seen["throughput_mbps"], 1e-3)) - delay - 10.0 * seen["loss"]
