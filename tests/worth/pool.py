"""Collects candidates: answers of a model to each task, with recorded seeds, as lines of JSON.

It can be stopped at any time and continues where it was: attempt by attempt over all tasks, so that
the candidates of the tasks are as many as possible at any time.
"""

import json
import time
import urllib.request
from concurrent.futures import ThreadPoolExecutor, as_completed
from pathlib import Path

from tasks import Task

TEMPERATURE = 0.8
OUTPUT_TOKENS_MAX = 700


def read_pool(path: Path) -> list[dict]:
    """Reads the candidates so far; a line that was cut is left out."""
    rows = []
    for line in path.read_text().splitlines() if path.exists() else []:
        try:
            rows.append(json.loads(line))
        except json.JSONDecodeError:
            continue
    return rows


def collect(tasks: list[Task], path: Path, endpoint: str, model: str, attempts: int, parallel: int, until: float) -> int:
    """Asks for the candidates that `path` lacks, until all are there or the time is over.

    Returns how many are missing.
    """
    known = {(row["task"], row["attempt"]) for row in read_pool(path)}
    missing = [
        (attempt, task)
        for attempt in range(attempts)
        for task in tasks
        if (task.number, attempt) not in known
    ]
    path.parent.mkdir(parents=True, exist_ok=True)
    left = len(missing)
    with ThreadPoolExecutor(parallel) as threads, path.open("a") as pool:
        ask_in_time = lambda pair: ask(endpoint, model, pair[1], pair[0]) if time.time() < until else None
        for candidate in as_completed([threads.submit(ask_in_time, pair) for pair in missing]):
            if row := candidate.result():
                pool.write(json.dumps(row) + "\n")
                pool.flush()
                left -= 1
    return left


def ask(endpoint: str, model: str, task: Task, attempt: int) -> dict:
    """Asks for one candidate."""
    seed = 1000 * attempt + task.number
    body = {
        "model": model,
        "messages": [{"role": "user", "content": task.question()}],
        "temperature": TEMPERATURE,
        "seed": seed,
        "max_tokens": OUTPUT_TOKENS_MAX,
    }
    request = urllib.request.Request(
        endpoint.rstrip("/") + "/chat/completions",
        data=json.dumps(body).encode(),
        headers={"content-type": "application/json"},
    )
    begin = time.time()
    with urllib.request.urlopen(request, timeout=600) as response:
        reply = json.load(response)
    usage = reply["usage"]
    return {
        "task": task.number,
        "attempt": attempt,
        "model": model,
        "seed": seed,
        "temperature": TEMPERATURE,
        "input_tokens": usage["prompt_tokens"],
        "cached_tokens": (usage.get("prompt_tokens_details") or {}).get("cached_tokens", 0),
        "output_tokens": usage["completion_tokens"],
        "seconds": round(time.time() - begin, 2),
        "text": reply["choices"][0]["message"]["content"],
    }
