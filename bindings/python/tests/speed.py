# SPDX-License-Identifier: Apache-2.0 OR MIT
"""The figures of docs/python.md: python speed.py PROGRAM, with the program `alcc-lab`. All are CPU times."""
import resource
import subprocess
import sys
import time

import alcc

STARTS = 5
LINK = {"link": "60mbit", "flow": ["cubic", "verus"], "duration": "300s"}


class Mine(alcc.Controller):
    acks = 0

    def on_start(self, path):
        self.window = 10 * path.mss_bytes
        return self.window

    def on_ack(self, ack):
        Mine.acks += 1
        if ack.rtt_ms is not None and ack.rtt_ms > ack.min_rtt_ms + 20:
            self.window = max(3000, self.window - 0.5 * ack.acked_bytes)
        else:
            self.window += 0.1 * ack.acked_bytes
        return self.window


def user(who):
    return resource.getrusage(who).ru_utime


def simulate(program):
    options = "--link 60mbit --flow cubic --flow verus --duration 300s --json".split()
    own, others = [], []
    for _ in range(STARTS):
        began = user(resource.RUSAGE_SELF)
        alcc.simulate(**LINK)
        own.append(user(resource.RUSAGE_SELF) - began)
        began = user(resource.RUSAGE_CHILDREN)
        subprocess.run([program, "sim", *options], check=True, capture_output=True)
        others.append(user(resource.RUSAGE_CHILDREN) - began)
    # Another program's work only adds: the least of each is nearest to its own.
    return min(own) / min(others)


def acks():
    Mine.acks = 0
    began = time.process_time()
    alcc.simulate(link="100mbit", flow=Mine, duration="60s")
    return Mine.acks / (time.process_time() - began)


def gym_step():
    from alcc.gym import Env

    env = Env(link="12mbit", duration="60s", step="20ms")
    env.reset(seed=1)
    steps, over = 0, False
    began = time.process_time()
    while not over:
        over = env.step([0.0])[3]
        steps += 1
    whole = time.process_time() - began
    alone = alcc.Simulation(link="12mbit", flow="external", duration="60s")
    began = time.process_time()
    alone.run()
    return (whole - (time.process_time() - began)) / steps * 1e6


def import_ms():
    code = "import time; t = time.process_time(); import alcc; print(time.process_time() - t)"
    return float(subprocess.check_output([sys.executable, "-c", code])) * 1e3


if __name__ == "__main__":
    print(f"import, ms: {sorted(round(import_ms(), 2) for _ in range(STARTS))}")
    print(f"simulate / alcc-lab sim, user time: {simulate(sys.argv[1]):.2f}")
    print(f"acknowledgements per second: {sorted(round(acks()) for _ in range(STARTS))}")
    print(f"a step of the environment beyond the simulation, us: {sorted(round(gym_step(), 1) for _ in range(STARTS))}")
