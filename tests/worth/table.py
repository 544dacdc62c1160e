"""Counts what a pool of candidates shows of each strategy, over all choices of at most four of them."""

import random
from dataclasses import dataclass
from math import comb

ATTEMPTS_MAX = 4
SAMPLES = 2_000
BEGIN, END = "<!-- table: tests/worth.sh -->", "<!-- end of the table -->"


@dataclass(frozen=True)
class Candidate:
    """An answer with its verdicts."""

    passes: bool
    solves: bool
    input_tokens: int
    output_tokens: int


@dataclass(frozen=True)
class Outcome:
    """What a strategy gives for a task, on average over all choices of candidates."""

    solved: float
    candidates: float
    input_tokens: float
    output_tokens: float


def one_attempt(pool: list[Candidate]) -> Outcome:
    """One candidate is taken as it is."""
    return Outcome(mean(c.solves for c in pool), 1, *tokens(pool, 1))


def perfect_choice(pool: list[Candidate], count: int) -> Outcome:
    """Of so many candidates a good one is always found: no strategy can do better."""
    bad = sum(not c.solves for c in pool)
    none_good = comb(bad, count) / comb(len(pool), count)
    return Outcome(1 - none_good, count, *tokens(pool, count))


def best_of(pool: list[Candidate], count: int) -> Outcome:
    """So many candidates are made; any that passes the examples is taken, nothing if none does."""
    return Outcome(first_pass(pool, count).solved, count, *tokens(pool, count))


def first_pass(pool: list[Candidate], count: int) -> Outcome:
    """One candidate after another is made, at most so many, until one passes the examples."""
    passing = [c for c in pool if c.passes]
    failing = len(pool) - len(passing)
    none = [comb(failing, k) / comb(len(pool), k) for k in range(count + 1)]
    solved = (1 - none[count]) * mean(c.solves for c in passing)
    asked = sum(none[:count])
    return Outcome(solved, asked, *tokens(pool, asked))


def cascade(small: list[Candidate], large: list[Candidate]) -> Outcome:
    """One candidate of the small model, and one of the large if that fails the examples."""
    outcomes = [
        Outcome(
            one.passes * one.solves + (not one.passes) * (other.passes and other.solves),
            1 + (not one.passes),
            one.input_tokens + (not one.passes) * other.input_tokens,
            one.output_tokens + (not one.passes) * other.output_tokens,
        )
        for one in small
        for other in large
    ]
    return average(outcomes)


def average(outcomes: list[Outcome]) -> Outcome:
    fields = ("solved", "candidates", "input_tokens", "output_tokens")
    return Outcome(*(mean(getattr(outcome, field) for outcome in outcomes) for field in fields))


def tokens(pool: list[Candidate], count: float) -> tuple[float, float]:
    return count * mean(c.input_tokens for c in pool), count * mean(c.output_tokens for c in pool)


def mean(values) -> float:
    values = list(values)
    return sum(values) / len(values) if values else 0.0


def interval(values: list[float]) -> tuple[float, float]:
    """Returns the range of the mean with 95 % certainty, from samples of as many tasks."""
    chance = random.Random(1)
    means = sorted(mean(chance.choices(values, k=len(values))) for _ in range(SAMPLES))
    return means[SAMPLES // 40], means[-SAMPLES // 40 - 1]


def curve(pools: list[list[Candidate]]) -> list[tuple[int, float, float, float]]:
    """Returns for each number of candidates what is solved with checks and by a perfect choice, and
    the output tokens that as many candidates have."""
    points = []
    for count in range(1, min(map(len, pools)) + 1):
        solved, best = [], []
        for pool in pools:
            passing = [c for c in pool if c.passes]
            none = comb(len(pool) - len(passing), count) / comb(len(pool), count)
            solved.append((1 - none) * mean(c.solves for c in passing))
            best.append(1 - comb(sum(not c.solves for c in pool), count) / comb(len(pool), count))
        written = mean(tokens(pool, count)[1] for pool in pools)
        points.append((count, mean(solved), mean(best), written))
    return points


def attempts(pools) -> int:
    """Returns how many candidates every task has, at most four."""
    return min([ATTEMPTS_MAX, *map(len, pools)])


def row(name: str, model: str, outcomes: list[Outcome], base: list[Outcome]) -> str:
    """Returns a row of the table."""
    solved = [outcome.solved for outcome in outcomes]
    gains = [outcome.solved - other.solved for outcome, other in zip(outcomes, base)]
    low, high = interval(solved)
    gain = "" if outcomes is base else "{:+.0f} [{:+.0f}, {:+.0f}]".format(*(100 * value for value in (mean(gains), *interval(gains))))
    all_of = average(outcomes)
    return (
        f"| {name} | {model} | {len(outcomes)} | {100 * mean(solved):.0f} % [{100 * low:.0f}, {100 * high:.0f}] | {gain} "
        f"| {all_of.candidates:.1f} | {all_of.input_tokens:.0f} | {all_of.output_tokens:.0f} |"
    )


HEAD = (
    "| strategy | model | tasks | solved | points more than one attempt | requests | tokens read | tokens written |\n"
    "|---|---|---|---|---|---|---|---|"
)


def table(pools: dict[str, dict[int, list[Candidate]]]) -> str:
    """Returns the table of these pools: for each model, its candidates by task; small models first."""
    lines = [HEAD]
    strategies = [
        ("first-pass, at most {}", first_pass),
        ("best-of {}", best_of),
        ("a perfect choice of {}", perfect_choice),
    ]
    for model, by_task in pools.items():
        tasks, count = list(by_task.values()), attempts(by_task.values())
        base = [one_attempt(pool) for pool in tasks]
        lines.append(row("one attempt", model, base, base))
        for name, strategy in strategies if count > 1 else []:
            lines.append(row(name.format(count), model, [strategy(pool, count) for pool in tasks], base))
    models = list(pools)
    for small, large in zip(models, models[1:]):
        both = sorted(pools[small].keys() & pools[large].keys())
        outcomes = [cascade(pools[small][task], pools[large][task]) for task in both]
        lines.append(row("cascade", f"{small}, then {large}", outcomes, [one_attempt(pools[large][task]) for task in both]))
    return "\n".join(lines)
