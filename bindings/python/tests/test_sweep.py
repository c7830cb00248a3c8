# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Sweeps: the same rows as the program, whatever happens to workers."""
import glob
import json
import os
import signal
import tempfile
import threading
import time
import unittest

import alcc
from alcc._key import Keys
from support import cli, needs, needs_program


def key(case):
    return Keys().key(case)


class Poison(alcc.Controller):
    """Takes its worker with it."""

    def on_ack(self, ack):
        os.kill(os.getpid(), signal.SIGKILL)


class Steady(alcc.Controller):
    def on_ack(self, ack):
        return 1_000_000


class Once(alcc.Controller):
    def on_ack(self, ack):
        raise ValueError("mine")


@needs("pyarrow")
class Here(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.out = folder.name

    def test_rows_are_those_of_single_runs_and_are_kept(self):
        grid = {"flow": ["cubic", "copa"], "link": ["8mbit", "lte"], "seed": [1, 2]}
        done = alcc.sweep(grid, out=self.out, duration="3s")
        self.assertEqual((len(done), done.ran, done.errors), (8, 8, []))
        found = done.to_pyarrow().to_pylist()
        self.assertEqual([row.pop("case") for row in found], list(range(8)))
        for case, row in zip(done.cases, found):
            single = alcc.simulate(**case).flows.to_pyarrow().to_pylist()
            self.assertEqual([row], [dict(single[0], duration="3s")])
        again = alcc.sweep(grid, out=self.out, duration="3s")
        self.assertEqual(again.ran, 0)
        self.assertEqual(again.to_pyarrow(), done.to_pyarrow())
        more = alcc.sweep(dict(grid, seed=[1, 2, 3]), out=self.out, duration="3s")
        self.assertEqual((len(more), more.ran), (12, 4))

    def test_rows_say_what_was_varied(self):
        grid = {"rtt": ["20ms", "60ms"], "loss": [0, 0.02], "up": ["1mbit"]}
        done = alcc.sweep(grid, out=self.out, link="8mbit", duration="2s")
        rows = done.to_pyarrow().to_pylist()
        self.assertEqual([(row["rtt"], row["axis_loss"], row["up"]) for row in rows], [
            ("20ms", 0, "1mbit"), ("20ms", 0.02, "1mbit"), ("60ms", 0, "1mbit"), ("60ms", 0.02, "1mbit"),
        ])
        names = done.to_pyarrow().column_names
        self.assertEqual(len(names), len(set(names)))
        self.assertNotIn("axis_up", names)
        # The measured loss keeps its name; a colleague who gets the files can tell them apart, too.
        self.assertGreater(rows[1]["loss"], 0.005)
        import pyarrow.parquet

        table = pyarrow.parquet.read_table(done.files[3])
        self.assertEqual(table["rtt"].to_pylist(), ["60ms"])
        about = json.loads(table.schema.metadata[b"about"])
        self.assertIn("rtt='60ms'", about["command"])
        self.assertGreaterEqual(len(about["build"]), 16)

    def test_a_sweep_that_was_stopped_goes_on(self):
        grid = [{"flow": "cubic", "seed": seed} for seed in range(1, 6)]
        first = alcc.sweep(grid[:2], out=self.out, duration="2s")
        # What a killed process leaves behind.
        open(first.files[0] + ".4711.tmp", "w").close()
        os.remove(first.files[1])
        rest = alcc.sweep(grid, out=self.out, duration="2s")
        self.assertEqual((len(rest), rest.ran), (5, 4))

    def test_a_grid_that_is_none_says_so(self):
        for grid, words in [
            ({}, "empty grid"),
            ([], "expected a dictionary of lists"),
            (None, "expected a dictionary of lists"),
            (5, "expected a dictionary of lists"),
            ("cubic", "expected a dictionary of lists"),
            ([{"flow": "cubic"}, 3], "expected a dictionary of lists"),
            ({"flow": "cubic"}, "flow: found one value, expected a list"),
            ({"flow": []}, "flow: found an empty list"),
            ({"flow": ["cubic"], "seed": iter(())}, "seed: found an empty list"),
            ({3: ["cubic"]}, "an argument named 3"),
            ([{3: "cubic"}], "an argument named 3"),
            ({"flow": ["cubic", "cubic"]}, "two cases of the grid are the same"),
            ({"flow": [object()]}, "a value of type object"),
        ]:
            with self.subTest(grid=grid), self.assertRaisesRegex(alcc.ScenarioError, f"^sweep: .*{words}"):
                alcc.sweep(grid, out=self.out, duration="1s")
        self.assertEqual(os.listdir(self.out), [])

    def test_values_that_cannot_be_are_rows_with_an_error_of_one_line(self):
        grid = {"seed": [10**400, 10**5000, -1], "flow": [[], "cu\nbic"]}
        done = alcc.sweep(grid, out=self.out, duration="1s")
        self.assertEqual(len(done.errors), 6)
        for _, why in done.errors:
            self.assertRegex(why, "^ScenarioError: ")
            self.assertTrue(why.isprintable())
            self.assertLess(len(why), 300)
        self.assertEqual(alcc.sweep(grid, out=self.out, duration="1s").ran, 0)

    def test_a_file_that_was_cut_is_named(self):
        done = alcc.sweep({"flow": ["cubic"]}, out=self.out, duration="1s")
        open(done.files[0], "w").close()
        with self.assertRaisesRegex(alcc.ScenarioError, f"{done.files[0]}: cannot be read .*: remove it"):
            alcc.sweep({"flow": ["cubic"]}, out=self.out, duration="1s")

    def test_a_case_that_fails_is_a_row_and_not_run_again(self):
        grid = {"flow": ["cubic", Once, "cubik"]}
        done = alcc.sweep(grid, out=self.out, duration="2s")
        self.assertEqual([case["flow"] for case, _ in done.errors], [Once, "cubik"])
        self.assertRegex(done.errors[0][1], "ControllerError: controller Once.on_ack at .* ValueError: mine")
        self.assertRegex(done.errors[1][1], "ScenarioError: .*did you mean cubic")
        table = done.to_pyarrow().to_pylist()
        self.assertEqual([row["throughput_mbps"] is None for row in table], [False, True, True])
        self.assertEqual(alcc.sweep(grid, out=self.out, duration="2s").ran, 0)
        self.assertEqual(alcc.sweep(grid, out=self.out, duration="2s", again=True).ran, 2)

    def test_a_changed_file_or_class_is_another_case(self):
        path = os.path.join(self.out, "link.trace")
        with open(path, "w") as file:
            file.write("1\n2\n")
        before = key({"link": path})
        self.assertEqual(before, key({"link": path}))
        with open(path, "w") as file:
            file.write("1\n3\n")
        self.assertNotEqual(before, key({"link": path}))
        self.assertNotEqual(key({"flow": Once}), key({"flow": Poison}))
        self.assertNotEqual(key({"link": alcc.Trace([1])}), key({"link": alcc.Trace([2])}))

    def test_what_a_class_does_tells_its_cases_apart(self):
        def typed(text, **names):
            names = dict(names, alcc=alcc, __name__="__main__")
            exec(text, names)
            return key({"flow": names["Mine"]})

        head = "class Mine(alcc.Controller):\n    def on_ack(self, ack): return "
        same = typed(head + "20_000")
        self.assertEqual(same, typed("# moved\n\n" + head + "20_000   # and explained"))
        base = "class Base(alcc.Controller):\n    window = %d\nclass Mine(Base):\n    def on_ack(self, ack): return self.window"
        within = "def make(window):\n    class Mine(alcc.Controller):\n        def on_ack(self, ack): return window\n    return Mine\nMine = make(%d)"
        helper = "def window(): return %d\n" + head + "window()"
        default = "class Mine(alcc.Controller):\n    def on_ack(self, ack, window=%d): return window"
        nested = head + "[w for w in (%d,)][0]"
        for text in (head + "%d", base, within, helper, default, nested):
            with self.subTest(text):
                self.assertEqual(typed(text % 10_000), typed(text % 10_000))
                self.assertNotEqual(typed(text % 10_000), typed(text % 20_000))
        self.assertNotEqual(typed(head + "WINDOW", WINDOW=1e4), typed(head + "WINDOW", WINDOW=2e4))
        self.assertNotEqual(typed(head + "KNOWN['w']", KNOWN={"w": 1}), typed(head + "KNOWN['w']", KNOWN={"w": 2}))
        # What refers to itself, and what cannot be told apart.
        typed("def window(): return window\n" + head + "window(), Mine, OTHER", OTHER=object())

    def test_a_file_that_a_case_names_within_a_text_is_read_too(self):
        at = os.path.join
        matrix, trace, scenario = at(self.out, "m.csv"), at(self.out, "l.trace"), at(self.out, "s.toml")
        table = "levels,1.5\n3,-4,4,4,3,-2,2,2\n"

        def write(path, text):
            with open(path, "w") as file:
                file.write(text)

        write(scenario, 'link = "l.trace"\nflow = "cubic"\nduration = "1s"\n')
        for path, case in [
            (trace, {"link": trace}),
            (trace, {"link": [{"rate": trace, "queue": "codel"}]}),
            (trace, {"scenario": scenario}),
            (scenario, {"scenario": scenario}),
            (matrix, {"flow": f"mdi:matrix={matrix}"}),
            (matrix, {"flow": ["cubic", f"2*mdi:matrix={matrix}@1s"]}),
        ]:
            with self.subTest(path=path, case=case):
                write(trace, "1\n2\n")
                write(matrix, table)
                before = key(case)
                self.assertEqual(before, key(case))
                with open(path, "a") as file:
                    file.write("3\n" if path == trace else "\n")
                self.assertNotEqual(before, key(case))
                os.remove(path)
                key(case)
                if path == scenario:
                    break

    def test_a_full_disk_ends_it_in_words_and_it_goes_on_later(self):
        from unittest import mock

        from pyarrow import parquet

        write, count = parquet.write_table, iter(range(100))

        def full(table, where):
            if next(count) == 2:
                with open(where, "w") as file:
                    file.write("half")
                raise OSError(28, "No space left on device")
            write(table, where)

        grid = {"seed": range(1, 6)}
        with mock.patch.object(parquet, "write_table", full):
            with self.assertRaisesRegex(alcc.SimulationError, f"^sweep: {self.out}/.*: cannot be written .*No space left"):
                alcc.sweep(grid, out=self.out, flow="cubic", duration="1s")
        self.assertEqual([name for name in os.listdir(self.out) if not name.endswith(".parquet")], [])
        self.assertEqual(alcc.sweep(grid, out=self.out, flow="cubic", duration="1s").ran, 3)

    def test_what_ends_it_ends_the_runs_under_way(self):
        from unittest import mock

        from pyarrow import parquet

        grid = [{"flow": "cubic", "duration": "1s"}] + [{"duration": "30000s", "seed": n} for n in range(9)]
        began = time.perf_counter()
        with mock.patch.object(parquet, "write_table", side_effect=OSError("mine")):
            with self.assertRaises(alcc.SimulationError) as kept:
                alcc.sweep(grid, out=self.out, link="1gbit")
        self.assertIn("mine", str(kept.exception))
        self.assertLess(time.perf_counter() - began, 10.0)
        # Even while the error is still looked at.
        self.assertEqual([t.name for t in threading.enumerate() if t.name.startswith("ThreadPool")], [])

    def test_sweeps_of_several_threads_share_a_folder(self):
        ended = []

        def one():
            ended.append(alcc.sweep({"seed": range(30)}, out=self.out, flow="cubic", duration="200ms"))

        threads = [threading.Thread(target=one) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual([len(of) for of in ended], [30] * 4)
        self.assertEqual(len(os.listdir(self.out)), 30)

    def test_ctrl_c_ends_it_at_once(self):
        before = signal.signal(signal.SIGINT, signal.default_int_handler)
        self.addCleanup(signal.signal, signal.SIGINT, before)
        for flow in ("cubic", Steady):
            threading.Timer(0.5, lambda: os.kill(os.getpid(), signal.SIGINT)).start()
            began = time.perf_counter()
            with self.subTest(flow), self.assertRaises(KeyboardInterrupt):
                alcc.sweep({"seed": range(9), "flow": [flow]}, out=self.out, link="1gbit", duration="3000s")
            self.assertLess(time.perf_counter() - began, 10.0)
        self.assertEqual(os.listdir(self.out), [])

    def test_where_and_who_are_checked(self):
        taken = os.path.join(self.out, "taken")
        open(taken, "w").close()
        for arguments, words in [
            ({"out": 5}, "out: found int, expected the name of a folder"),
            ({"out": None}, "out: found NoneType"),
            ({"out": taken}, "out: no folder can be made: .*exists"),
            ({"out": taken + "/below"}, "out: no folder can be made: "),
            ({"out": "a\0b"}, "out: no folder can be made: "),
            ({"out": self.out, "client": 5}, "client: found int, expected a dask.distributed.Client"),
        ]:
            with self.subTest(words), self.assertRaisesRegex(alcc.ScenarioError, f"^sweep: {words}"):
                alcc.sweep({"seed": [1]}, duration="1s", **arguments)
        done = alcc.sweep({"stop": [1]}, out=self.out, duration="1s")
        self.assertRegex(done.errors[0][1], "ScenarioError: .*no key 'stop'")

    def test_mistakes(self):
        for grid, words in (({"flow": "cubic"}, "flow: found one value"), ([], "expected a dict"), (["x"], "expected a dict")):
            with self.assertRaisesRegex(alcc.ScenarioError, words):
                alcc.sweep(grid, out=self.out)
        with self.assertRaisesRegex(alcc.ScenarioError, "the same"):
            alcc.sweep({"seed": [1, 1]}, out=self.out)
        within = []
        within.append(within)
        with self.assertRaisesRegex(alcc.ScenarioError, "a list within itself"):
            alcc.sweep({"flow": [within]}, out=self.out)

    @needs("numpy")
    def test_a_range_of_numpy_is_that_of_python(self):
        import numpy as np

        one = alcc.sweep({"seed": np.arange(1, 3)}, out=self.out, flow="cubic", duration="1s")
        two = alcc.sweep({"seed": [1, 2]}, out=self.out, flow="cubic", duration="1s")
        self.assertEqual((one.ran, two.ran, one.errors), (2, 0, []))


class Blaming:
    """A client whose workers are killed by Poison, and by what was on them with it."""

    def __init__(self, blamed):
        self.blamed = blamed
        self.keys = []

    def submit(self, work, case, key, pure):
        from types import SimpleNamespace

        from distributed import KilledWorker

        self.keys.append(key)
        flow, alone, blamed = case["flow"], key.endswith("-alone"), self.blamed

        class Future:
            def result(self):
                if flow is Poison or flow in blamed and not alone:
                    raise KilledWorker(key, SimpleNamespace(address="tcp://there"), 1)
                return work(case)

        return Future()

    def cancel(self, futures):
        pass


@needs("pyarrow", "distributed")
class Blamed(unittest.TestCase):
    def test_cases_beside_one_that_kills_workers_are_run_alone(self):
        from unittest import mock

        grid = {"flow": ["cubic", Poison, "copa", "reno"]}
        for blamed, alone in (["copa", "reno"], 3), ([], 0):
            client = Blaming(blamed)
            with self.subTest(blamed), tempfile.TemporaryDirectory() as out:
                with mock.patch("alcc._sweep._come", lambda distributed, client, futures: futures):
                    done = alcc.sweep(grid, out=out, client=client, duration="1s")
                self.assertEqual([case["flow"] for case, _ in done.errors], [Poison])
                # Who is the only one has nobody to be told apart from, and would kill more.
                self.assertEqual(len(client.keys), 4 + alone)


# Quiet processes of this machine alone.
CLUSTER = {"processes": True, "dashboard_address": None, "memory_limit": 0, "host": "127.0.0.1", "silence_logs": 50}


@needs("pyarrow", "distributed")
class OnWorkers(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        import dask
        from distributed import Client, LocalCluster

        # A poisonous case is given up after two workers.
        dask.config.set({"distributed.scheduler.allowed-failures": 1})
        cls.cluster = LocalCluster(n_workers=3, threads_per_worker=1, **CLUSTER)
        cls.client = Client(cls.cluster)

    @classmethod
    def tearDownClass(cls):
        cls.client.close(60)
        cls.cluster.close(60)

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.out = folder.name

    @needs_program()
    def test_48_runs_with_a_worker_killed_give_the_rows_of_the_program(self):
        grid = {"link": ["20mbit", "lte"], "flow": ["copa", "cubic", "verus"], "seed": list(range(1, 9))}
        victim = next(iter(self.cluster.workers.values())).process.pid
        stop = threading.Event()

        def kill():
            while len(glob.glob(self.out + "/*.parquet")) < 5:
                if stop.wait(0.01):
                    return
            os.kill(victim, signal.SIGKILL)
            killed.append(victim)

        killed = []
        thread = threading.Thread(target=kill)
        thread.start()
        done = alcc.sweep(grid, out=self.out, client=self.client, duration="10s")
        stop.set()
        thread.join()
        self.assertEqual(killed, [victim])
        self.assertEqual((len(done), done.errors), (48, []))
        found = done.to_pyarrow().to_pylist()
        self.assertEqual(len(found), 48)
        for case, row in zip(done.cases, found):
            options = [word for name, value in case.items() for word in (f"--{name}", str(value))]
            [want] = cli(*options)["flows"]
            for name, value in want.items():
                self.assertEqual(row[name], value, (case, name))
        self.assertEqual(alcc.sweep(grid, out=self.out, client=self.client, duration="10s").ran, 0)

    def test_a_client_that_was_closed_says_so(self):
        from distributed import Client

        client = Client(self.cluster)
        client.close()
        with self.assertRaisesRegex(alcc.SimulationError, "^sweep: the client took no case: "):
            alcc.sweep({"seed": [1, 2]}, out=self.out, client=client, duration="1s")

    def test_a_cluster_without_workers_is_given_up_and_a_late_worker_is_not_too_late(self):
        from unittest import mock

        from distributed import Client, LocalCluster

        with (
            LocalCluster(n_workers=0, **CLUSTER) as cluster,
            Client(cluster) as client,
            mock.patch("alcc._sweep.NO_WORKER", 3),
        ):
            began = time.perf_counter()
            with self.assertRaisesRegex(alcc.SimulationError, "^sweep: wait for 2 cases: .*no worker for 3 s: start"):
                alcc.sweep({"seed": [1, 2]}, out=self.out, client=client, flow="cubic", duration="1s")
            self.assertLess(time.perf_counter() - began, 20.0)
            threading.Timer(1.5, cluster.scale, [1]).start()
            with mock.patch("alcc._sweep.NO_WORKER", 60):
                done = alcc.sweep({"seed": [1, 2]}, out=self.out, client=client, flow="cubic", duration="1s")
            self.assertEqual((done.ran, done.errors), (2, []))

    def test_a_case_that_kills_workers_is_reported_and_skipped(self):
        done = alcc.sweep({"flow": ["cubic", Poison, "copa"]}, out=self.out, client=self.client, duration="2s")
        self.assertEqual([case["flow"] for case, _ in done.errors], [Poison])
        self.assertIn("KilledWorker", done.errors[0][1])
        rows = done.to_pyarrow().to_pylist()
        self.assertEqual([row["throughput_mbps"] is None for row in rows], [False, True, False])


if __name__ == "__main__":
    unittest.main()
