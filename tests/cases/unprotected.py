#!/usr/bin/env python3
"""Stands in for `massgen tool execute_command`: runs the command with nothing that holds it."""

import json
import subprocess
import sys

arguments = json.load(sys.stdin)
try:
    run = subprocess.run(
        ["bash", "-c", arguments["command"]],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        close_fds=False,
        timeout=arguments.get("timeout", 20),
    )
    status, output = run.returncode, (run.stdout + run.stderr).decode("utf-8", "replace")
except subprocess.TimeoutExpired:
    status, output = None, "it took too long"
print(json.dumps({"ok": status == 0, "output": output, "exit": status}))
