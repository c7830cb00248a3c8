# SPDX-License-Identifier: Apache-2.0 OR MIT
"""The rows are those of the program, to the last digit."""
import json
import os
import tempfile
import unittest

import alcc
from support import cli, needs_program

#: Arguments of alcc.simulate; as options of the program they are the same words.
SCENARIOS = [
    {},
    {"flow": "cubic", "duration": "10s"},
    {"link": "lte", "flow": ["verus", "copa"], "duration": "20s", "seed": 3},
    {"link": "60mbit", "flow": ["2*verus/rtt=20ms", "cubic@2s-8s"], "duration": "12s"},
    {"link": "20mbit", "queue": "codel", "loss": "1%", "flow": "budget", "duration": "10s"},
    {"link": ["20mbit", "8mbit"], "flow": ["cubic", "reno/links=2@3s"], "duration": "10s"},
    {"flow": "sprout", "rtt": "80ms", "up": "2mbit", "duration": "10s", "seed": 2},
    {"flow": ["bbr/over=cubic", "udp:rate=2mbit"], "duration": "10s"},
    {"steps": "every=2s,rate=5mbit..20mbit,delay=5ms..30ms", "flow": "verus", "duration": "10s"},
    {"flow": ["reno", "reno@2s"], "settle": "3s", "phase": "4s-8s", "duration": "10s"},
    {"link": "city-driving", "queue": "red:min=375000,max=1125000", "flow": "3*copa/stagger=1s", "duration": "10s"},
]


def options(arguments):
    for key, values in arguments.items():
        for value in values if isinstance(values, list) else [values]:
            yield f"--{key.replace('_', '-')}"
            yield str(value)


class Rows(unittest.TestCase):
    @needs_program()
    def test_ten_scenarios_give_what_the_program_gives(self):
        for arguments in SCENARIOS:
            with self.subTest(arguments):
                want = cli(*options(arguments))
                found = alcc.simulate(**arguments)
                self.assertEqual(found.rows, want["flows"])
                self.assertEqual(found.summary, want["summary"])
                about, printed = want.pop("about"), json.loads(found.to_json())
                self.assertEqual(printed.pop("about"), found.about)
                self.assertEqual(printed, want)
                # The same but for the command, and for the file that the build is of.
                self.assertEqual(found.about.keys(), about.keys())
                for name in about.keys() - {"command", "build"}:
                    self.assertEqual(found.about[name], about[name])

    @needs_program()
    def test_a_file_gives_what_the_program_gives_and_arguments_overrule_it(self):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "two.toml")
            with open(os.path.join(folder, "own.trace"), "w") as trace:
                trace.write("1\n2\n3\n")
            with open(path, "w") as file:
                file.write('flow = ["cubic", "copa@1s"]\nduration = "5s"\n[[link]]\nrate = "own.trace"\nloss = "1%"\n')
            whole, found = cli(path), alcc.simulate(path)
            self.assertEqual(found.rows, whole["flows"])
            # Scenario and trace, by their content.
            self.assertEqual(len(found.about["files"]), 2)
            hashes = [sorted(file["sha256"] for file in of["about"]["files"]) for of in (whole, {"about": found.about})]
            self.assertEqual(*hashes)
            self.assertEqual(found.about["command"], f"alcc.simulate({path!r})")
            changed = alcc.simulate(path, seed=4, duration="3s").rows
            self.assertEqual(changed, cli(path, "--seed", "4", "--duration", "3s")["flows"])
            self.assertEqual(changed[0]["duration_s"], 3.0)

    @needs_program()
    def test_links_as_dictionaries_are_those_of_a_file(self):
        with tempfile.NamedTemporaryFile("w", suffix=".toml") as file:
            file.write('flow = "cubic"\nduration = "5s"\n')
            file.write('[[link]]\nrate = "20mbit"\n[[link]]\nrate = "8mbit"\nup = "1mbit"\nqueue-up = "codel"\n')
            file.write('step = "2s:delay=5ms"\nreorder = "yes"\n')
            file.flush()
            second = {"rate": "8mbit", "up": "1mbit", "queue_up": "codel", "step": "2s:delay=5ms", "reorder": True}
            links = ["20mbit", second]
            found = alcc.simulate(link=links, flow="cubic", duration="5s").rows
            self.assertEqual(found, cli(file.name)["flows"])

    def test_the_table_has_what_the_rows_have(self):
        result = alcc.simulate(flow=["cubic", "verus/over=reno/name=mine"], duration="5s")
        table = result.flows.to_pydict()
        self.assertEqual(len(result.flows), 2)
        for number, row in enumerate(result.rows):
            for name, value in row.items():
                self.assertEqual(table[name][number], value, name)
        self.assertEqual(table["under"], [None, "reno"])
        self.assertEqual(table["name"], [None, "mine"])

    def test_the_same_arguments_give_the_same_bytes(self):
        arguments = {"link": "lte", "flow": ["verus", "cubic"], "duration": "5s", "seed": 7}
        first = alcc.simulate(**arguments).to_json()
        self.assertEqual(first, alcc.simulate(**arguments).to_json())
        self.assertNotEqual(first, alcc.simulate(**dict(arguments, seed=8)).to_json())

    @needs_program()
    def test_the_series_is_that_of_the_program(self):
        import csv
        import subprocess
        from support import ALCC_LAB

        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "series.csv")
            flow = ["verus", "cubic/over=reno"]
            said = [ALCC_LAB, "sim", "--duration", "3s", "--series", path, *options({"flow": flow})]
            subprocess.run(said, check=True, capture_output=True)
            with open(path) as file:
                want = list(csv.DictReader(file))
        found = alcc.simulate(flow=flow, duration="3s", series="20ms").series.to_pydict()
        self.assertEqual(list(found), [name for name in want[0] if name != "events"])
        self.assertEqual(len(found["time_s"]), len(want))
        for number, line in enumerate(want):
            for name, column in found.items():
                value = column[number]
                text = "" if value is None else f"{value:.3f}" if isinstance(value, float) else str(value)
                self.assertEqual(text, line[name], (number, name))


if __name__ == "__main__":
    unittest.main()
