# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Shared code of the tests."""
import importlib.util
import json
import os
import subprocess
import unittest

#: The program `alcc`, beside which the module is tested.
ALCC_LAB = os.environ.get("ALCC_LAB")


def needs(*modules):
    """Leaves a test out where a package is missing."""
    missing = [name for name in modules if importlib.util.find_spec(name) is None]
    return unittest.skipIf(missing, f"needs {', '.join(missing)}")


def needs_program():
    return unittest.skipUnless(ALCC_LAB, "needs the program alcc-lab: set ALCC_LAB to it")


def cli(*arguments):
    """The object of `alcc-lab sim --json`."""
    done = subprocess.run([ALCC_LAB, "sim", "--json", *arguments], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)
