# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Scenarios, steps, traces, tables, and what the module promises of itself."""
import datetime
import os
import pathlib
import subprocess
import sys
import tempfile
import threading
import unittest

import alcc
from support import needs


class Scenarios(unittest.TestCase):
    def test_mistakes_name_the_argument_and_what_would_be_right(self):
        cases = [
            ({"lnik": "12mbit"}, "no key 'lnik' .did you mean link"),
            ({"link": "12mbt"}, "link: '12mbt' is not a rate"),
            ({"link": [{"rate": "8mbit", "delya": "5ms"}]}, "did you mean delay"),
            ({"flow": "cubik"}, "flow: .*did you mean cubic"),
            ({"flow": 3}, "flow: .*no algorithm '3'"),
            ({"queue_up": "droptial"}, "queue_up: .*did you mean droptail"),
            ({"duration": "0s"}, "duration: "),
            ({"duration": object()}, "duration: found a value of type object"),
            ({"series": "often"}, "series: 'often' is not"),
            ({"seed": -1}, "seed: "),
            ({"flow": "external"}, "use alcc.Simulation"),
            ({"flow": []}, "^flow: found an empty list, expected at least one value: leave flow out"),
            ({"link": ()}, "^link: found an empty list"),
            ({"queue_up": []}, "^queue_up: found an empty list"),
            ({"seed": 10**400}, "^seed: found a whole number of 1329 bits, expected one of at most 64"),
            ({"duration": 10**5000}, "^duration: found a whole number of 16610 bits"),
            ({"link": [{"rate": "8mbit", "delay": 10**400}]}, "^delay: found a whole number"),
            ({"flow": "cu\nbic\r\x1b[31m"}, r"flow: .*cu\\nbic"),
            ({"flow": "x" * 100_000}, "^flow: .* [.][.][.] "),
            ({"flow": object()}, "^flow: found a value of type object, expected a string .* or a class"),
            ({"flow": "\ud800"}, "^flow: found a text that is not Unicode"),
            ({"link": [{5: "8mbit"}]}, "^link: found a value of type int, expected names such as 'rate'"),
            ({"link": {"12mbit"}}, "^link: found a value of type set, expected a string .* or a dictionary"),
            ({"scenario": 5}, "^scenario: found a value of type int, expected the name of a file"),
            ({"scenario": ["a.toml"]}, "^scenario: found a value of type list, expected the name of a file"),
            ({"series": 5}, "^series: '5' is not a length of time: write a number and ns, us"),
            ({"duration": 2}, "^duration: '2' is not a length of time: write a number and ns, us"),
            ({"link": [{"rate": "8mbit", "delay": 0.02}]}, "^delay: '0.02' is not a length of time: write"),
            ({"queueup": "codel"}, "no key 'queueup' .did you mean queue_up.*: there are .* loss_up, "),
            ({"series": True}, "^series: found a value of type bool, expected a time"),
            ({"series": "0ms"}, "^series: "),
            ({"algorithms": 5}, "^algorithms: found a value of type int, expected a dictionary of classes"),
            ({"algorithms": "verus"}, "^algorithms: found a value of type str, expected a dictionary"),
            ({"algorithms": alcc.Controller}, "^algorithms: found a value of type type, expected a dictionary"),
            ({"algorithms": [5]}, "^algorithms: found a value of type int, expected a class of controllers"),
            ({"algorithms": {5: alcc.Controller}}, "^algorithms: found a value of type int, expected names"),
            ({"algorithms": {"own": 5}}, "^controller 5: found no method on_ack"),
        ]
        for arguments, words in cases:
            with self.subTest(words):
                with self.assertRaisesRegex(alcc.ScenarioError, words) as caught:
                    alcc.simulate(**arguments)
                self.assertIsInstance(caught.exception, ValueError)
                self.assertTrue(str(caught.exception).isprintable())
                self.assertLess(len(str(caught.exception)), 1010)
        with self.assertRaisesRegex(alcc.ScenarioError, "no such file"):
            alcc.simulate("nowhere.toml")

    @needs("numpy")
    def test_numbers_of_numpy_are_numbers(self):
        import numpy as np

        own = alcc.simulate(flow="cubic", duration="2s", seed=3, loss=0.01).rows
        self.assertEqual(alcc.simulate(flow="cubic", duration="2s", seed=np.int64(3), loss=np.float64(0.01)).rows, own)

    def test_a_run_that_would_not_end_is_given_up(self):
        with self.assertRaisesRegex(alcc.SimulationError, "stopped after"):
            alcc.simulate(flow="cubic", max_events=1000)

    def test_a_defect_is_an_exception(self):
        with self.assertRaisesRegex(alcc.InternalError, "please report it: made up at src/lib.rs"):
            alcc._alcc._panic("made up")


class Steps(unittest.TestCase):
    def test_steps_change_nothing(self):
        arguments = {"link": "lte", "flow": ["cubic", "verus/over=reno"], "duration": "5s", "series": "100ms"}
        simulation = alcc.Simulation(**arguments)
        while simulation.step("37ms"):
            self.assertLessEqual(simulation.now_s, simulation.end_s)
        self.assertTrue(simulation.is_over)
        whole = alcc.simulate(**arguments)
        self.assertEqual(simulation.result().to_json(), whole.to_json())
        self.assertEqual(simulation.result().series.to_pydict(), whole.series.to_pydict())

    def test_a_window_from_outside_is_kept(self):
        simulation = alcc.Simulation(flow="external", link="12mbit", duration="20s")
        simulation.run_until(1.0)
        for segments in (5, 40, 20):
            simulation.set_window(segments * 1472)
            simulation.step("500ms")
            flow = simulation.flow(0)
            self.assertEqual(flow.window_bytes, segments * 1472)
            self.assertAlmostEqual(flow.in_flight_bytes / 1472, segments, delta=1)
            before = flow.delivered_bytes
            simulation.step("4100ms")
            # A window of packets of 1500 bytes in each of 100 round trips of 41 ms. The receiver acknowledges every second
            # packet at once, so that of a few packets one waits.
            share = (simulation.flow(0).delivered_bytes - before) / (100 * 1500 * segments)
            self.assertLessEqual(share, 1.0)
            self.assertGreater(share, 0.75 if segments == 5 else 0.89)
        simulation.run()
        self.assertTrue(simulation.is_over)

    def test_mistakes(self):
        simulation = alcc.Simulation(flow=["cubic", "external"], duration="2s")
        with self.assertRaisesRegex(alcc.ScenarioError, "flow 0 has an algorithm"):
            simulation.set_window(1472)
        with self.assertRaisesRegex(alcc.ScenarioError, "there are flows 0 to 1"):
            simulation.flow(2)
        for window in (float("nan"), -1.0):
            with self.assertRaisesRegex(alcc.ScenarioError, "expected bytes"):
                simulation.set_window(window, 1)
        for span in ("", "1", "x"):
            with self.assertRaisesRegex(alcc.ScenarioError, "step: "):
                simulation.step(span)
        with self.assertRaisesRegex(alcc.ScenarioError, "run_until: "):
            simulation.run_until(float("nan"))
        for call, words in [
            (lambda: simulation.step(20), "^step: '20' is not a length of time: write a number and ns, us"),
            (lambda: simulation.step(None), "^step: found a value of type NoneType"),
            (lambda: simulation.run_until("1s"), "^run_until: found a value of type str, expected seconds"),
            (lambda: simulation.run_until(10**400), "^run_until: found a whole number of 1329 bits"),
            (lambda: simulation.set_window("1472", 1), "^set_window: found a value of type str, expected bytes"),
            (lambda: simulation.set_window(1472, "1"), "^flow: found a value of type str, expected a whole number"),
            (lambda: simulation.set_window(1472, -1), "^flow -1: there are flows 0 to 1"),
            (lambda: simulation.flow(-1), "^flow -1: there are flows 0 to 1"),
            (lambda: simulation.flow(1.5), "^flow: found a value of type float"),
            (lambda: simulation.flow(10**5000), "^flow: found a whole number of 16610 bits"),
            (lambda: simulation.gauges([]), "^flow: found a value of type list"),
            (lambda: alcc.Allowance(window_bytes="1472"), "^window_bytes: found a value of type str, expected a number"),
            (lambda: alcc.Allowance(timer_s=[]), "^timer_s: found a value of type list"),
        ]:
            with self.subTest(words), self.assertRaisesRegex(alcc.ScenarioError, words):
                call()
        self.assertTrue(simulation.step("20ms"))

    def test_after_a_failure_nothing_more_is_done(self):
        class Bad(alcc.Controller):
            def on_ack(self, ack):
                raise ValueError("mine")

        simulation = alcc.Simulation(flow=Bad, duration="60s")
        with self.assertRaises(alcc.ControllerError):
            simulation.run()
        with self.assertRaisesRegex(alcc.SimulationError, "failed before"):
            simulation.step("1s")

    def test_two_threads_do_not_step_at_once(self):
        simulation = alcc.Simulation(link="100mbit", flow="cubic", duration="60s")
        errors = []

        def step():
            try:
                simulation.run()
            except alcc.SimulationError as error:
                errors.append(str(error))

        threads = [threading.Thread(target=step) for _ in range(2)]
        [thread.start() for thread in threads]
        [thread.join(60) for thread in threads]
        self.assertFalse(any(thread.is_alive() for thread in threads))
        self.assertTrue(all("one at a time" in error for error in errors), errors)

    def test_a_controller_cannot_step_its_own_simulation(self):
        class Steps(alcc.Controller):
            def on_ack(self, ack):
                simulation.step("1s")
                return 14_480

        simulation = alcc.Simulation(flow=Steps, duration="5s")
        with self.assertRaisesRegex(alcc.ControllerError, "one at a time"):
            simulation.run()


class Traces(unittest.TestCase):
    def test_synthetic_traces_are_those_of_the_links(self):
        self.assertIn("lte", alcc.synthetic_traces())
        trace = alcc.trace("lte", seed=1)
        arguments = {"flow": "cubic", "duration": "5s"}
        own = alcc.simulate(link=trace, **arguments).rows[0]
        named = alcc.simulate(link="lte", **arguments).rows[0]
        self.assertEqual(own["throughput_mbps"], named["throughput_mbps"])
        self.assertNotEqual(trace.opportunities.to_pydict(), alcc.trace("lte", seed=2).opportunities.to_pydict())

    def test_a_trace_of_ones_own(self):
        # A packet of 1500 bytes each ms is 12 Mbit/s.
        trace = alcc.Trace([1], name="each-ms")
        self.assertEqual((trace.mean_mbps, trace.period_s, len(trace)), (12.0, 0.001, 1))
        row = alcc.simulate(link=trace, flow="cubic", duration="5s").rows[0]
        self.assertEqual(row["link"], "each-ms")
        self.assertAlmostEqual(row["throughput_mbps"], 12.0, delta=0.7)
        with self.assertRaises(alcc.ScenarioError):
            alcc.Trace([])
        with self.assertRaisesRegex(alcc.ScenarioError, "scenarios are"):
            alcc.trace("nowhere")
        for call, words in [
            (lambda: alcc.Trace("1 2"), "^trace trace: opportunities_ms: found '1 2', expected a list of whole numbers"),
            (lambda: alcc.Trace(5), "opportunities_ms: found 5"),
            (lambda: alcc.Trace([-1], name="mine"), r"^trace mine: opportunities_ms: found \[-1\]"),
            (lambda: alcc.Trace([1.5]), r"opportunities_ms: found \[1.5\]"),
            (lambda: alcc.Trace([1] * 999 + [None]), r"opportunities_ms: found \[1, .* [.][.][.] .*None\]"),
            (lambda: alcc.Trace([1], name=5), "^name: found a value of type int, expected a text"),
            (lambda: alcc.Trace([1], name=".."), "^name: '..' cannot be that of a trace"),
            (lambda: alcc.Trace([1], name=""), "^name: '' cannot be that of a trace"),
            (lambda: alcc.trace(5), "^name: found a value of type int, expected the name of a file"),
            (lambda: alcc.trace("lte", seed=-1), "^seed: -1: expected a whole number from 0 on"),
            (lambda: alcc.trace("lte", seed="1"), "^seed: found a value of type str"),
            (lambda: alcc.trace("lte", seed=10**400), "^seed: found a whole number of 1329 bits"),
        ]:
            with self.subTest(words), self.assertRaisesRegex(alcc.ScenarioError, words):
                call()

    def test_the_name_of_a_trace_of_ones_own_says_nothing_about_it(self):
        def utilized(**arguments):
            return alcc.simulate(flow="cubic", duration="5s", **arguments).rows[0]

        # 12 and 6 Mbit/s under one name; and names that are a rate, a channel, or no link at all.
        fast, slow = (alcc.Trace(times, name="mine") for times in ([1], [2]))
        both = utilized(link=[fast, slow])
        self.assertEqual(both["link"], "mine > mine")
        self.assertAlmostEqual(both["throughput_mbps"], 6.0, delta=0.5)
        for name in ("3mbit", "lte", "unlimited", "synth:lte"):
            row = utilized(link=alcc.Trace([1], name=name))
            self.assertEqual(row["link"], name)
            self.assertAlmostEqual(row["throughput_mbps"], 12.0, delta=0.7)


class Frames(unittest.TestCase):
    def setUp(self):
        self.result = alcc.simulate(flow=["cubic", "verus"], duration="5s", series="10ms")

    @needs("polars")
    def test_polars_reads_the_same_buffers(self):
        series = self.result.series
        frame = series.to_polars()
        self.assertEqual(frame["time_s"].to_list(), series.to_pydict()["time_s"])
        first = frame["time_s"].to_numpy(allow_copy=False)
        second = series.to_polars()["time_s"].to_numpy(allow_copy=False)
        self.assertEqual(first.__array_interface__["data"], second.__array_interface__["data"])

    @needs("pandas", "pyarrow")
    def test_pandas_and_pyarrow_read_the_same_buffers(self):
        series = self.result.series
        def address(column):
            return column.chunk(0).buffers()[1].address
        table = series.to_pyarrow()
        frame = series.to_pandas()
        self.assertEqual(address(table["time_s"]), address(frame["time_s"].array._pa_array))
        self.assertEqual(frame["flow_number"].tolist(), series.to_pydict()["flow_number"])
        self.assertEqual(self.result.flows.to_pandas()["scheme"].tolist(), ["cubic", "verus"])

    @needs("pandas", "pyarrow")
    def test_pandas_gets_arrow_types_and_numpy_its_own(self):
        import pandas

        for table in (self.result.flows, self.result.series):
            for name, kind in table.to_pandas().dtypes.items():
                self.assertIsInstance(kind, pandas.ArrowDtype, name)
        fields = ["time_s", "window_bytes", "queue_delay_ms"]
        numbers = self.result.series.to_pandas()[fields].to_numpy(float)
        self.assertEqual(numbers.dtype, float)
        series = self.result.series.to_pydict()
        self.assertIn(None, series["queue_delay_ms"])
        for name, column in zip(fields, numbers.T):
            # A value that was not measured is NaN there.
            found = [None if number != number else number for number in column.tolist()]
            self.assertEqual(found, series[name], name)

    @needs("matplotlib")
    def test_plots_in_one_call(self):
        figure = self.result.plot()
        self.assertEqual(len(figure.axes), 2)
        self.assertEqual(len(figure.axes[0].lines), 3)
        flows = ["cubic", "verus", "copa:profile=tuned", "verus/name=mine"]
        points = alcc.simulate(flow=flows, duration="5s").plot()
        names = ["cubic", "verus (tuned)", "copa:profile=tuned", "mine"]
        self.assertEqual([line.get_label() for line in points.axes[0].lines], names)
        figure.savefig(os.devnull, format="png")
        # Before anything was delivered.
        alcc.Simulation(flow="cubic", duration="5s").result().plot()


class Module(unittest.TestCase):
    def test_the_import_is_quick(self):
        # Time of the processor, and of several starts the best: the machine may be busy.
        code = "import time; t = time.process_time(); import alcc; print(time.process_time() - t)"
        runs = [subprocess.check_output([sys.executable, "-c", code]) for _ in range(7)]
        self.assertLess(min(float(run) for run in runs), 0.020)

    def test_completion_shows_every_name(self):
        self.assertLessEqual(set(alcc.__all__), set(dir(alcc)))

    def test_a_trace_from_rates_has_them(self):
        link = alcc.Trace.from_rates([0, 1, 2.0], [12, 0, 6.0], name="mine")
        self.assertEqual((link.name, link.period_s, len(link)), ("mine", 3.0, 1500))
        rows = alcc.simulate(link=link, flow="verus", duration=datetime.timedelta(seconds=2)).rows
        self.assertEqual((rows[0]["link"], rows[0]["duration_s"], rows[0]["profile"]), ("mine", 2.0, "tuned"))
        for seconds, mbps, words in [
            ([0, 1], [1], "found 2 times and 1 rates"),
            ([0, 0], [1, 1], "position 2: '0' is not a time later than .*: sort the rows"),
            ([0, 1], [1, float("nan")], "position 2: 'NaN' is not a rate in Mbit/s from 0 on"),
            ([0, 1], [-1, 1], "position 1: '-1' is not a rate"),
            ("ab", [1], "seconds: found 'ab', expected a list of numbers"),
            ([], [], "no row with a time and a rate"),
            ([0, 1e9], [0, 0], "take a shorter piece or a lower rate"),
        ]:
            with self.subTest(words), self.assertRaisesRegex(alcc.ScenarioError, words):
                alcc.Trace.from_rates(seconds, mbps)
        for times, words in [
            ([], "no delivery opportunity: give one time"),
            ([1, 5, 3], "position 3: time goes back from 5 ms to 3 ms: sort the times"),
            ([0, 0], "position 2: the last time is 0 ms"),
            ([1, float("nan")], "expected a list of whole numbers"),
        ]:
            with self.subTest(words), self.assertRaisesRegex(alcc.ScenarioError, words):
                alcc.Trace(times)

    def test_a_trace_from_a_file_of_rates(self):
        with tempfile.TemporaryDirectory() as folder:

            def file(name, text):
                path = pathlib.Path(folder, name)
                path.write_bytes(text)
                return path

            # Synthetic files of the public forms' shapes, each 1.2 Mbit/s for 1 s, then 2.4 for 1 s.
            for name, text in [
                ("plain.csv", b"\xef\xbb\xbfseconds,kbps\r\n0,1200\r\n1,2400\r\n"),
                ("nyu.csv", b"1.2,Mbits/sec\n2400,Kbits/sec\n"),
                (
                    "irish.csv",
                    b"Timestamp,NetworkMode,RSRP,DL_bitrate,UL_bitrate\n2019.11.25_15.34.59,5G,-96,1200,3\n"
                    b"2019.11.25_15.35.00,5G,-96,2400,5\n",
                ),
                (
                    "sabre.json",
                    b'[{"duration_ms": 1000, "bandwidth_kbps": 1200}, {"duration_ms": 1000, "bandwidth_kbps": 2400}]',
                ),
                (
                    "iperf3.json",
                    b'{"intervals": [{"sum": {"start": 0, "bits_per_second": 1200000}},'
                    b' {"sum": {"start": 1, "bits_per_second": 2400000}}]}',
                ),
                (
                    "cake.log",
                    b"DATA_HEADER; LOG_TIMESTAMP; DL_ACHIEVED_RATE_KBPS\nDATA; 1672567200; 1200\nDATA; 1672567201; 2400\n",
                ),
            ]:
                with self.subTest(name):
                    trace = alcc.Trace.from_rates(file(name, text))
                    self.assertEqual((trace.name, trace.period_s, len(trace)), (name, 2.0, 300))
            speed = file("speed.csv", b"when,speed\na,1200\nb,2400\n")
            trace = alcc.Trace.from_rates(
                str(speed), name="mine", column="speed", unit="kbit", every=datetime.timedelta(seconds=1)
            )
            self.assertEqual((trace.name, len(trace)), ("mine", 300))
            mixed = file("mixed.csv", b"seconds,mbps\n0,5\n1,6 kbit\n")
            for call, words in [
                (lambda: alcc.Trace.from_rates(speed), r"choose one \(column\)"),
                (lambda: alcc.Trace.from_rates(speed, column="speed"), r"give it \(unit=kbit\)"),
                (lambda: alcc.Trace.from_rates(mixed), "line 3, column mbps: '6 kbit' is not a rate: .* or by unit$"),
                (lambda: alcc.Trace.from_rates(file("zip.gz", b"\x1f\x8b\x08\x00")), "unpack it .gunzip"),
                (lambda: alcc.Trace.from_rates(file("empty", b"")), "write lines of seconds,mbps"),
                (lambda: alcc.Trace.from_rates(pathlib.Path(folder, "no")), "no such file"),
                (lambda: alcc.Trace.from_rates([0, 1]), "expected the name of a file, or two lists"),
                (lambda: alcc.Trace.from_rates([0], [1], unit="kbit"), "^unit: it is for a file"),
                (lambda: alcc.Trace.from_rates(mixed, every=1), "^every: '1' is not a length of time"),
                (lambda: alcc.trace(mixed), "other forms: alcc.Trace.from_rates"),
            ]:
                with self.subTest(words), self.assertRaisesRegex(alcc.ScenarioError, words) as caught:
                    call()
                self.assertNotIn("--", str(caught.exception))

    def test_nothing_is_required(self):
        code = "import alcc, sys; alcc.simulate(duration='1s'); print(sorted(sys.modules))"
        loaded = subprocess.check_output([sys.executable, "-c", code], text=True)
        for module in ("numpy", "pandas", "polars", "pyarrow", "matplotlib", "gymnasium", "distributed"):
            self.assertNotIn(f"'{module}'", loaded)

    def test_what_is_missing_is_named_with_its_cure(self):
        code = "import sys; sys.modules['polars'] = None; import alcc; alcc.simulate(duration='1s').flows.to_polars()"
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
        message = "to_polars needs polars, which is not installed: pip install 'alcc[polars]'"
        self.assertIn(f"MissingPackageError: {message}", done.stderr)
        self.assertTrue(issubclass(alcc.MissingPackageError, ImportError))
        self.assertTrue(issubclass(alcc.MissingPackageError, alcc.Error))
        self.assertFalse(issubclass(alcc.MissingPackageError, alcc.SimulationError))

    def test_a_module_that_needs_a_package_may_be_tried(self):
        code = """if True:
            import sys
            sys.modules['gymnasium'] = None
            try:
                import alcc.gym
            except ImportError as error:
                print(error.name, error)
        """
        said = subprocess.check_output([sys.executable, "-c", code], text=True)
        self.assertEqual(
            said, "gymnasium alcc.gym needs gymnasium, which is not installed: pip install 'alcc[gym]'\n"
        )

    def test_the_stubs_name_every_option(self):
        with open(os.path.join(os.path.dirname(alcc.__file__), "_alcc.pyi")) as file:
            stubs = file.read()
        body = stubs.split("class Options(", 1)[1].split("\n\n\n", 1)[0]
        named = [line.split(":")[0].strip() for line in body.splitlines() if line.startswith("    ") and ":" in line]
        self.assertEqual(named, alcc.option_names())

    @needs("mypy")
    def test_the_stubs_say_what_is_there(self):
        allowed = os.path.join(os.path.dirname(__file__), "stubtest.txt")
        command = [sys.executable, "-m", "mypy.stubtest", "alcc._alcc", "--allowlist", allowed]
        folder = os.environ.get("ALCC_TEST_TMP", ".")
        done = subprocess.run(command, capture_output=True, text=True, cwd=folder)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)

    @needs("mypy")
    def test_a_sweep_has_types(self):
        code = "import alcc\ndone = alcc.sweep({}, out='x')\nreveal_type(done.errors)\nalcc.sweep({}, out=5)\n"
        command = [sys.executable, "-m", "mypy", "--python-executable", sys.executable, "-c", code]
        folder = os.environ.get("ALCC_TEST_TMP", ".")
        done = subprocess.run(command, capture_output=True, text=True, cwd=folder)
        self.assertIn("list[tuple[dict[str, Any], str]]", done.stdout + done.stderr)
        self.assertIn('"out" to "sweep" has incompatible type "int"', done.stdout)


if __name__ == "__main__":
    unittest.main()
