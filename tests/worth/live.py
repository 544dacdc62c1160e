"""Runs teams of massgen whose agents give the candidates of a pool, and compares what is delivered
with what the table counts: the first candidate, in order, that passes the examples."""

import json
import random
import subprocess
import sys
import tempfile
from pathlib import Path

from tasks import Task
from verdicts import code_of, program

RUNS = 20
SEED = 7


def check_runs(massgen: str, tasks: list[Task], pool: dict[int, list[dict]], verdicts: dict[int, dict[int, tuple[bool, bool]]], attempts: int) -> int:
    """Returns how many runs deliver what is expected; ends the process at the first that does not."""
    ready = [task for task in tasks if len(pool.get(task.number, [])) >= attempts]
    chosen = random.Random(SEED).sample(ready, min(RUNS, len(ready)))
    for task in chosen:
        rows = sorted(pool[task.number], key=lambda row: row["attempt"])[:attempts]
        passing = [row for row in rows if verdicts[task.number][row["attempt"]][0]]
        expected = code_of(passing[0]["text"]) if passing else None
        delivered = deliver(massgen, task, rows)
        if delivered != expected:
            raise SystemExit(f"task {task.number}: delivered {delivered!r}, expected {expected!r}")
    return len(chosen)


def deliver(massgen: str, task: Task, rows: list[dict]) -> str | None:
    """Returns the solution that a cascade of these candidates delivers; `None` if it delivers none."""
    with tempfile.TemporaryDirectory() as place:
        project = Path(place) / "project"
        project.mkdir()
        # `solution` is what an agent writes; the check puts the rest around it.
        test = program(task, "exec(open('solution.py').read())", task.examples)
        (project / "check.py").write_text(test)
        (project / "team.yaml").write_text(json.dumps(team(rows)))
        command = [massgen, "--config", "team.yaml", "--yes", "--automation", task.question()]
        ended = subprocess.run(command, cwd=project, capture_output=True, text=True, timeout=120)
        if ended.returncode not in (0, 1):
            raise SystemExit(f"task {task.number}: massgen ended with {ended.returncode}: {ended.stderr}")
        solution = project / "solution.py"
        return solution.read_text() if solution.exists() else None


def team(rows: list[dict]) -> dict:
    """Returns the config of a cascade whose agents give one candidate each."""
    def agent(row: dict) -> dict:
        write = {"name": "write_file", "arguments": {"path": "{{cwd}}/solution.py", "content": code_of(row["text"])}}
        answer = {"name": "new_answer", "arguments": {"content": f"candidate {row['attempt']}"}}
        backend = {"type": "scripted", "cwd": f"work{row['attempt']}", "replies": [{"calls": [write, answer]}]}
        return {"id": f"a{row['attempt']}", "backend": backend}

    return {
        "agents": [agent(row) for row in rows],
        "orchestrator": {
            "context_paths": [{"path": ".", "permission": "write"}],
            "strategy": "cascade",
            "max_new_answers_per_agent": 1,
        },
        "checks": [{"name": "examples", "command": f"{sys.executable} -I check.py", "timeout": 30}],
    }
