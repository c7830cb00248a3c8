# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Turns what regrtest wrote (its XML file, and its output) into JSON: [[test, outcome, text], ...]."""
import json
import re
import sys
import xml.etree.ElementTree

tests = {}
for case in xml.etree.ElementTree.parse(sys.argv[1]).iter("testcase"):
    # The XML file says nothing of a test whose subtests failed, not even its name.
    if case.get("name") is None:
        continue
    said = [(part.tag, part.get("message") or "", part.text or "") for part in case if part.tag in ("skipped", "failure", "error")]
    outcome = said[0][0] if said else case.get("result", "completed").replace("completed", "ok")
    tests[case.get("name")] = (outcome, "\n".join(f"{message}\n{text}".strip() for _, message, text in said))

with open(sys.argv[2], errors="replace") as file:
    output = file.read()
for kind, test, text in re.findall(r"^={70}\n(FAIL|ERROR): \S+ \((\S+)\).*\n-{70}\n((?:.+\n)*)", output, re.M):
    tests.setdefault(test, ({"FAIL": "failure", "ERROR": "error"}[kind], text))

json.dump([[test, *rest] for test, rest in tests.items()], sys.stdout)
