# SPDX-License-Identifier: Apache-2.0 OR MIT
"""docs/notebook.ipynb: its cells run, and say what stands there. ALCC_BLESS=1 writes the outputs anew."""
import copy
import os
import tempfile
import unittest

from support import needs

NOTEBOOK = os.path.join(os.path.dirname(__file__), "..", "..", "..", "docs", "notebook.ipynb")


def said(notebook):
    """Output of the cells; for pictures, the fact that there is one."""
    found = []
    for number, cell in enumerate(notebook.cells):
        for output in cell.get("outputs", []):
            data = output.get("data", {})
            text = output.get("text", data.get("text/plain", ""))
            found.append((number, output.output_type, "a picture" if "image/png" in data else text))
    return found


class Notebook(unittest.TestCase):
    maxDiff = None

    @needs("nbclient", "ipykernel", "matplotlib", "pandas", "pyarrow", "gymnasium")
    def test_the_notebook_says_what_its_cells_say(self):
        import nbformat
        from nbclient import NotebookClient

        kept = nbformat.read(NOTEBOOK, as_version=4)
        now = copy.deepcopy(kept)
        with tempfile.TemporaryDirectory() as folder:
            # Nothing of the user's: no history, no profile.
            os.environ.update(IPYTHONDIR=folder, JUPYTER_RUNTIME_DIR=folder)
            client = NotebookClient(now, timeout=300, kernel_name="python3", record_timing=False)
            client.execute(cwd=folder)
        if os.environ.get("ALCC_BLESS"):
            now.metadata = {"kernelspec": now.metadata["kernelspec"], "language_info": {"name": "python"}}
            nbformat.write(now, NOTEBOOK)
            return
        self.assertEqual(said(kept), said(now))
        self.assertIn("a picture", [text for _, _, text in said(kept)])

    def test_it_is_small_and_names_no_path_of_a_machine(self):
        with open(NOTEBOOK, encoding="utf-8") as file:
            text = file.read()
        self.assertLess(len(text), 150_000)
        for path in ("/home/", "/root/", "/tmp/", "/usr/", "site-packages"):
            self.assertNotIn(path, text)


if __name__ == "__main__":
    unittest.main()
