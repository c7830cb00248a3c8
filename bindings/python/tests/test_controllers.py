# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Controllers written in Python: what they are told, and what becomes of their mistakes."""
import os
import signal
import sys
import threading
import time
import unittest
from pathlib import Path

import alcc


class Mine(alcc.Controller):
    """More while the queue is short, less when it is not, half after a loss."""

    def __init__(self, gain=0.1, queue_ms=20.0):
        self.gain, self.queue_ms = gain, queue_ms

    def on_start(self, path):
        self.least = 2 * path.mss_bytes
        self.window = 10 * path.mss_bytes
        return self.window

    def on_ack(self, ack):
        if ack.rtt_ms is not None and ack.rtt_ms > ack.min_rtt_ms + self.queue_ms:
            self.window = max(self.least, self.window - 0.5 * ack.acked_bytes)
        else:
            self.window += self.gain * ack.acked_bytes
        self.gauges = {"my_window": self.window}
        return self.window

    def on_loss(self, loss):
        if loss.new_episode:
            self.window = max(self.least, self.window / 2)
        return self.window


def failing(answer):
    class Failing(alcc.Controller):
        def on_ack(self, ack):
            return answer(ack) if ack.now_s > 1.0 else 30_000

    return Failing


class Controllers(unittest.TestCase):
    def test_a_class_controls_a_flow(self):
        result = alcc.simulate(flow=[Mine, "cubic@20s"], duration="20s", series="100ms")
        row = result.rows[0]
        self.assertEqual((row["algorithm"], row["scheme"]), ("mine", "mine"))
        self.assertGreater(row["utilization"], 0.9)
        self.assertLess(row["queue_delay_mean_ms"], 30.0)
        self.assertIn("my_window", result.series.columns)

    def test_parameters_are_options_and_texts_know_the_class(self):
        flows = [Mine, "mine:queue_ms=100/rtt=80ms", "2*mine/over=cubic@1s"]
        rows = alcc.simulate(flow=flows, duration="10s").rows
        self.assertEqual([row["scheme"] for row in rows], ["mine", "mine", "alcc-mine", "alcc-mine"])
        self.assertEqual(rows[1]["options"], "queue_ms=100")
        named = alcc.simulate(algorithms={"own": Mine}, flow="own:gain=0.2", duration="5s").rows
        self.assertEqual(named[0]["algorithm"], "own")
        short = alcc.simulate(flow=[Mine], algorithms=[Mine], duration="10s").rows[0]
        long = alcc.simulate(algorithms=[Mine], flow="mine:queue_ms=100", duration="10s").rows[0]
        self.assertGreater(long["queue_delay_mean_ms"], 2 * short["queue_delay_mean_ms"])

    def test_what_a_controller_is_told_adds_up(self):
        seen = []

        class Listens(alcc.Controller):
            def on_start(self, path):
                self.path = path
                return 20 * path.mss_bytes

            def on_ack(self, ack):
                seen.append(ack)
                return 20 * self.path.mss_bytes

        row = alcc.simulate(link="12mbit", rtt="40ms", flow=Listens, duration="5s").rows[0]
        self.assertGreater(len(seen), 1000)
        self.assertEqual(sum(ack.acked_bytes for ack in seen), seen[-1].delivered_bytes)
        self.assertGreaterEqual(seen[-1].delivered_bytes * 1.05, row["bytes"])
        # 12 Mbit/s carry a packet of 1500 bytes in 1 ms, so the smallest round trip is 41 ms.
        self.assertAlmostEqual(seen[-1].min_rtt_ms, 41.0, delta=0.5)
        self.assertTrue(all(a.now_s <= b.now_s for a, b in zip(seen, seen[1:])))
        self.assertTrue(all(ack.in_flight_bytes <= 20 * 1500 for ack in seen))

    def test_a_class_runs_in_the_simulator_only(self):
        page = (Path(__file__).parents[3] / "docs" / "python.md").read_text()
        promise = "A controller in Python, like an agent of `alcc.gym.Env`, runs in the simulator only."
        self.assertIn(promise, " ".join(page.split()))
        # `alcc-lab sim --emu` runs real programs, and QUIC is not simulated.
        for arguments, words in [
            ({"flow": Mine, "emu": True}, "^emu: no key 'emu': there are link, "),
            ({"flow": "mine/transport=quic", "algorithms": [Mine]}, "^flow: .*has no QUIC"),
        ]:
            with self.subTest(words), self.assertRaisesRegex(alcc.ScenarioError, words) as caught:
                alcc.simulate(duration="1s", **arguments)
            self.assertTrue(str(caught.exception).isprintable())

    def test_an_allowance_paces_and_asks_for_a_timer(self):
        times = []

        class Paced(alcc.Controller):
            paced = True

            def answer(self, now_s):
                return alcc.Allowance(rate_mbps=3.0, timer_s=now_s + 0.5)

            def on_start(self, path):
                return self.answer(path.now_s)

            def on_ack(self, ack):
                return self.answer(ack.now_s) if not times else alcc.Allowance(rate_mbps=3.0)

            def on_timer(self, now_s):
                times.append(now_s)
                return self.answer(now_s)

        row = alcc.simulate(link="12mbit", flow=Paced, duration="10s").rows[0]
        self.assertAlmostEqual(row["throughput_mbps"], 3.0, delta=0.3)
        self.assertLess(row["queue_delay_mean_ms"], 5.0)

    def test_mistakes_say_what_and_where(self):
        def raises(ack):
            raise ValueError("mine")

        def recurses(ack):
            return recurses(ack)

        def raises_lines(ack):
            raise ValueError("one\ntwo\r\n\x1b[31m")

        def raises_much(ack):
            raise ValueError("mine, " * 100_000)

        cases = [
            (raises, "it raised ValueError: mine", ValueError),
            (recurses, "it raised RecursionError", RecursionError),
            (lambda ack: sys.exit(3), "it raised SystemExit: 3", SystemExit),
            (lambda ack: float("nan"), "it answered nan", None),
            (lambda ack: float("inf"), "it answered inf", None),
            (lambda ack: -1, "it answered -1", None),
            (lambda ack: None, "it answered None", None),
            (lambda ack: "14480", "it answered '14480'", None),
            (lambda ack: True, "it answered True", None),
            (lambda ack: alcc.Allowance(rate_mbps=float("nan")), "rate_mbps=NaN", None),
            (lambda ack: alcc.Allowance(timer_s=9.0), "no method on_timer", None),
            (lambda ack: alcc.Allowance(timer_s=1e308), "timer_s=1e308, but", None),
            (lambda ack: alcc.Allowance(rate_mbps="3"), "it raised ScenarioError: rate_mbps: found a", alcc.ScenarioError),
            (lambda ack: 10**400, "it answered 1000", None),
            (lambda ack: 10**5000, "it answered an object", None),
            (raises_lines, r"it raised ValueError: one\ntwo\r\n\u{1b}[31m", ValueError),
            (raises_much, "it raised ValueError: mine, ", ValueError),
        ]
        for answer, words, cause in cases:
            with self.subTest(words):
                with self.assertRaises(alcc.ControllerError) as caught:
                    alcc.simulate(flow=failing(answer), duration="60s")
                message = str(caught.exception)
                self.assertIn(words, message)
                self.assertRegex(message, r"Failing\.on_ack at 1\.0\d*s")
                self.assertTrue(message.isprintable())
                self.assertLess(len(message), 250 if answer is not raises_much else 1010)
                if cause:
                    self.assertIsInstance(caught.exception.__cause__, cause)
        # And the interpreter lives.
        self.assertEqual(len(alcc.simulate(flow="reno", duration="1s").rows), 1)

    def test_nothing_is_called_after_a_mistake(self):
        calls = []

        class Once(alcc.Controller):
            def on_ack(self, ack):
                calls.append(ack.now_s)
                raise ValueError

        with self.assertRaises(alcc.ControllerError):
            alcc.simulate(flow=Once, duration="600s")
        self.assertEqual(len(calls), 1)

    def test_a_constructor_may_fail_too(self):
        class Broken(Mine):
            def __init__(self):
                raise KeyError("no")

        class Wants(Mine):
            def __init__(self, gain):
                pass

        with self.assertRaisesRegex(alcc.ControllerError, r"Broken\.__init__ .*KeyError"):
            alcc.simulate(flow=Broken)
        with self.assertRaisesRegex(alcc.ScenarioError, "gain has no default"):
            alcc.simulate(flow=Wants)
        with self.assertRaisesRegex(alcc.ScenarioError, "no method on_ack"):
            alcc.simulate(flow=int)
        with self.assertRaisesRegex(alcc.ScenarioError, "gain=much: expected a number"):
            alcc.simulate(algorithms=[Mine], flow="mine:gain=much")
        with self.assertRaisesRegex(alcc.ScenarioError, "did you mean gain"):
            alcc.simulate(algorithms=[Mine], flow="mine:gian=1")

    def test_gauges_that_are_none_say_so(self):
        class Gauges(Mine):
            found = None

            @property
            def gauges(self):
                if isinstance(self.found, Exception):
                    raise self.found
                return self.found

            @gauges.setter
            def gauges(self, value):
                pass

        for found, words in [
            ([1], r"it has \[1\]: expected a dictionary of numbers by name"),
            ({"mine": "3"}, "it has 'mine': '3': expected"),
            ({"mine": []}, r"it has 'mine': \[\]: expected"),
            ({3: 1.0}, "it has 3: 1.0: expected"),
            (ValueError("mine"), "it raised ValueError: mine"),
        ]:
            Gauges.found = found
            with self.subTest(words):
                with self.assertRaisesRegex(alcc.ControllerError, rf"Gauges\.gauges at \d.*{words}"):
                    alcc.simulate(flow=Gauges, duration="5s", series="100ms")
                simulation = alcc.Simulation(flow=Gauges, duration="5s")
                simulation.run_until(1.0)
                with self.assertRaisesRegex(alcc.ControllerError, words):
                    simulation.gauges()
                with self.assertRaisesRegex(alcc.SimulationError, "failed before"):
                    simulation.step("1s")
        for found in (None, {}, {"mine": None}, {"mine": float("nan")}):
            Gauges.found = found
            alcc.simulate(flow=Gauges, duration="2s", series="100ms")

    def test_a_class_that_cannot_be_read_says_so(self):
        class Silent:
            def __str__(self):
                raise ValueError("mine")

        class Default(Mine):
            def __init__(self, gain=Silent()):
                pass

        class Paced(Mine):
            paced = "yes"

        with self.assertRaisesRegex(alcc.ScenarioError, "Default: the default of gain .* ValueError: mine"):
            alcc.simulate(flow=Default)
        with self.assertRaisesRegex(alcc.ScenarioError, "Paced: paced: found str, expected True or False"):
            alcc.simulate(flow=Paced)

    def test_a_controller_that_never_answers_is_ended_by_ctrl_c(self):
        class Endless(alcc.Controller):
            def on_ack(self, ack):
                while True:
                    pass

        self.interrupted(flow=Endless)

    def test_names_are_not_taken_twice(self):
        class Verus(Mine):
            pass

        with self.assertRaisesRegex(alcc.ScenarioError, "'verus': the name is taken"):
            alcc.simulate(flow=Verus)
        other = type("Mine", (Mine,), {})
        with self.assertRaisesRegex(alcc.ScenarioError, "two classes"):
            alcc.simulate(flow=[Mine, other])

    def test_simulations_within_controllers_end(self):
        class Nested(alcc.Controller):
            def on_ack(self, ack):
                alcc.simulate(flow=Nested, duration="1s")
                return 14_480

        with self.assertRaisesRegex(alcc.ControllerError, "SimulationError"):
            alcc.simulate(flow=Nested, duration="1s")

    def interrupted(self, **arguments):
        # Who starts the tests in the background may have left the signal ignored.
        before = signal.signal(signal.SIGINT, signal.default_int_handler)
        self.addCleanup(signal.signal, signal.SIGINT, before)
        threading.Timer(0.3, lambda: os.kill(os.getpid(), signal.SIGINT)).start()
        began = time.perf_counter()
        with self.assertRaises(KeyboardInterrupt):
            alcc.simulate(link="1gbit", duration="3000s", **arguments)
        self.assertLess(time.perf_counter() - began, 10.0)

    def test_ctrl_c_ends_a_run(self):
        self.interrupted(flow="cubic")

    def test_ctrl_c_ends_a_run_with_a_controller_in_python(self):
        self.interrupted(flow=Mine)

    def test_other_threads_run_meanwhile(self):
        ticks = []
        stop = threading.Event()

        def tick():
            while not stop.wait(0.001):
                ticks.append(1)

        thread = threading.Thread(target=tick)
        thread.start()
        alcc.simulate(link="100mbit", flow="cubic", duration="20s")
        stop.set()
        thread.join()
        self.assertGreater(len(ticks), 10)


if __name__ == "__main__":
    unittest.main()
