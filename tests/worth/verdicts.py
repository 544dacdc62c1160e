"""Runs the candidates: each passes the examples of its docstring or not, and solves the task or not.

What models wrote runs only in massgen's sandbox, without a network, in a directory of its own.
"""

import json
import re
import subprocess
import sys
import tempfile
from pathlib import Path

from tasks import Task

# Runs the candidates of one task, each in a process of its own; prints a line of JSON for each.
RUNNER = '''
import json, subprocess, sys
for name in json.load(open("names.json")):
    verdicts = []
    for kind in ("examples", "hidden"):
        try:
            ended = subprocess.run([sys.executable, "-I", f"{name}-{kind}.py"], timeout=10,
                stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            verdicts.append(ended.returncode == 0)
        except subprocess.TimeoutExpired:
            verdicts.append(False)
    print(json.dumps([name, *verdicts]), flush=True)
'''


def code_of(text: str) -> str:
    """Returns the code of an answer: its code blocks, or all of it without any."""
    blocks = re.findall(r"```(?:python|py)?\s*\n(.*?)(?:```|\Z)", text, flags=re.S)
    return "\n".join(blocks) if blocks else text


def program(task: Task, code: str, lines: list[str]) -> str:
    """Returns a program that fails unless `code` passes `lines`."""
    # Functions of the prompt that the answer may leave out come first.
    head = task.prompt + "\n    pass\n"
    return f"{head}\n{code}\n\ncandidate = {task.name}\n" + "\n".join(lines) + "\n"


def judge(massgen: str, task: Task, rows: list[dict]) -> dict[int, tuple[bool, bool]]:
    """Returns for each attempt whether it passes the examples and whether it solves the task."""
    with tempfile.TemporaryDirectory() as place:
        work = Path(place)
        names = [str(row["attempt"]) for row in rows]
        (work / "names.json").write_text(json.dumps(names))
        (work / "runner.py").write_text(RUNNER)
        for row in rows:
            for kind, lines in (("examples", task.examples), ("hidden", task.hidden)):
                path = work / f"{row['attempt']}-{kind}.py"
                path.write_text(program(task, code_of(row["text"]), lines))
        grants = work / "grants.json"
        grants.write_text(json.dumps({"workspace": place}))
        command = [massgen, "sandbox", "--grants", str(grants), "--", sys.executable, "-I", "runner.py"]
        ended = subprocess.run(command, cwd=place, capture_output=True, text=True, timeout=60 * len(rows) + 60)
        if ended.returncode != 0:
            raise SystemExit(f"the sandbox cannot run candidates: {ended.stderr}")
        lines = [json.loads(line) for line in ended.stdout.splitlines()]
        return {int(name): (examples, hidden) for name, examples, hidden in lines}
