# SPDX-License-Identifier: Apache-2.0 OR MIT
"""docs/budget.md says exactly what the algorithm does: its Python answers as the vectors say."""
import json
import re
import unittest
from pathlib import Path
from types import SimpleNamespace as Fields

DOCS = Path(__file__).parents[3] / "docs"


class Page(unittest.TestCase):
    def setUp(self):
        blocks = re.findall(r"^```python\n(.*?)^```", (DOCS / "budget.md").read_text(), re.S | re.M)
        self.page = {}
        exec(compile("\n".join(blocks), "docs/budget.md", "exec"), self.page)

    def replay(self, case):
        """Yields the place of each event that has an answer, the answer, and that of the page."""
        start = now = case["start"]
        options = case["algorithm"].partition(":delay=")[2]
        budget = {"D": int(options.removesuffix("ms")) * 10**6} if options else {}
        answer, place = None, 0
        # Packets have numbers, records of a stream have none.
        each = 4 if case["host"] == "packets" else 3
        for place, (name, *fields) in enumerate(case["events"]):
            if name == "is":
                answer = fields
                continue
            if answer is not None:
                yield place, answer, self.answer(flow, start)
            now += fields[0]
            if name == "start":
                mss = fields[1]
                flow = self.page["Budget"](now, mss, **budget)
            elif name == "ack":
                before, _, limits, error = fields[1:5]
                by = Fields(window=limits & 1, quota=limits & 2, app=limits & 8, peer=0)
                flow.on_ack(now, self.packets(now, mss, each, fields[5:]), error, by, before)
            elif name == "loss":
                lost = self.packets(now, mss, each, fields[3:], tags=True)
                flow.on_loss(now, lost, new_episode=fields[2] == 1)
            elif name == "rto":
                flow.on_timeout(now)
            elif name == "timer":
                flow.on_timer(now)
        yield place, answer, self.answer(flow, start)

    @staticmethod
    def packets(now, mss, each, fields, tags=False):
        rows = zip(*[iter(fields)] * each, strict=True)
        return [Fields(size=length / mss, sent_at=now - age, rtt=None if tags else last or None)
                for length, age, last, *_ in rows]

    @staticmethod
    def answer(flow, start):
        window, rate = flow.answer()
        timer = -1 if flow.silent_at is None else flow.silent_at - start
        return window, max(rate, 8000) if rate else 0, timer

    def test_the_page_answers_as_the_vectors_say(self):
        cases = json.loads((DOCS.parent / "alcc/flow/tests/controller_vectors/vectors.json").read_text())["cases"]
        cases = [case for case in cases if case["algorithm"].startswith("budget")]
        self.assertGreaterEqual(len(cases), 5)
        for case in cases:
            for place, (window, _, rate, _, timer), found in self.replay(case):
                with self.subTest(case=case["algorithm"], host=case["host"], event=place):
                    self.assertAlmostEqual(window, found[0], delta=1)
                    self.assertAlmostEqual(rate, found[1], delta=1 + rate / 1e6)
                    self.assertEqual(timer, found[2])

    def test_after_a_silence_of_more_than_the_longest_mean_nothing_is_left(self):
        """RTTmin 525 ms: a silence counts as 2.1 s, 210 buckets, of which the mean has 200."""
        delivery = self.page["Delivery"]()
        for ms in range(2500):
            delivery.delivered(ms * 10**6, 1, 525 * 10**6, 525 * 10**6, False)
        self.assertAlmostEqual(delivery.mean, 1000)
        delivery.delivered(12_500 * 10**6, 1, 525 * 10**6, 525 * 10**6, False)
        self.assertEqual((delivery.mean, delivery.high), (0, 0))


if __name__ == "__main__":
    unittest.main()
