#!/usr/bin/python3
"""Runs the tests of Ganeti's QA that need no more than a queue, those of qa_job and qa_filters, on the cluster of this machine.

run.py SUITE: the directory of Debian's package ganeti-testsuite. The tests are unmodified; what they would run over ssh runs here.
It prints a line for each test, and what the failed ones have printed. The exit status is 1 if a test fails.
"""

import contextlib
import io
import json
import os
import sys
import tempfile
import traceback

SUITE = sys.argv[1]
sys.path[:0] = [SUITE, os.path.join(SUITE, "qa")]

# The tests import these modules under both names.
from qa import qa_config, qa_filters, qa_job, qa_utils as qa_utils_of_package  # noqa: E402
import qa_utils  # noqa: E402


def here(_node, cmd, **_options):
    return ["sh", "-c", cmd]


def load_config():
    config = {
        "name": "cluster", "rename": None, "os": "none", "nodes": [{"primary": os.uname().nodename}],
        "instances": [{"name": "instance1"}], "disks": [{"size": "1G", "growth": "1G", "name": "disk"}],
        "enabled-disk-templates": ["diskless"], "enabled-hypervisors": "fake",
    }
    with tempfile.NamedTemporaryFile("w", suffix=".json") as f:
        json.dump(config, f)
        f.flush()
        qa_config.Load(f.name)


def tests_of(module):
    named = [(f.__code__.co_firstlineno, name, f) for name, f in vars(module).items()
             if name.startswith("Test") and f.__module__ == module.__name__]
    return [(name, f) for _, name, f in sorted(named)]


def main():
    qa_utils.GetSSHCommand = qa_utils_of_package.GetSSHCommand = here
    load_config()
    failed = 0
    for module in (qa_job, qa_filters):
        for name, test in tests_of(module):
            said = io.StringIO()
            try:
                with contextlib.redirect_stdout(said):
                    test()
                print("%s.%s: passed" % (module.__name__.split(".")[-1], name), flush=True)
            except Exception:  # of any kind: the other tests go on
                failed += 1
                print("%s.%s: FAILED\n%s\n%s" % (module.__name__, name, said.getvalue(), traceback.format_exc()), flush=True)
    return 1 if failed else 0


sys.exit(main())
