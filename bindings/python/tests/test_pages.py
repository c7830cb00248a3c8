# SPDX-License-Identifier: Apache-2.0 OR MIT
"""The Python of the pages runs: all blocks of a page one after the other, as a reader would paste them."""
import os
import re
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

from support import needs

ROOT = Path(__file__).parents[3]


class Pages(unittest.TestCase):
    def run_page(self, name):
        blocks = re.findall(r"^```python\n(.*?)^```", (ROOT / name).read_text(), re.S | re.M)
        self.assertTrue(blocks)
        text = "\n".join(blocks)
        # Less time and fewer runs.
        text = re.sub(r'duration="\d+s"', 'duration="6s"', text).replace("range(1, 9)", "range(1, 3)")
        with tempfile.TemporaryDirectory() as folder:
            os.symlink(ROOT / "lab", os.path.join(folder, "lab"))
            Path(folder, "log.csv").write_text("seconds,UL_bitrate\n0,12000\n1,3000\n2,8000\n")
            Path(folder, "page.py").write_text(text)
            done = subprocess.run([sys.executable, "page.py"], cwd=folder, capture_output=True, text=True)
            self.assertEqual(done.returncode, 0, done.stderr)

    @needs("polars", "pandas", "pyarrow", "matplotlib", "gymnasium")
    def test_python(self):
        self.run_page("docs/python.md")

    @needs("polars")
    def test_readme(self):
        self.run_page("README.md")


if __name__ == "__main__":
    unittest.main()
