"""Runs programs as a user would, each in a fork of this process, which has imported the libraries: that
takes longer than all programs. Its argument is a file: the libraries, and of each program its text, its
directory and its environment, all in JSON. The output of a program goes to `plain.out` in its directory.
"""

import json
import os
import sys
import traceback


def run(program):
    os.chdir(program["dir"])
    os.environ.clear()
    os.environ.update(program["env"])
    output = os.open("plain.out", os.O_CREAT | os.O_WRONLY | os.O_APPEND, 0o600)
    for stream in (1, 2):
        os.dup2(output, stream)
    sys.argv = ["plain.py"]
    try:
        # Bytes, because a program may declare an encoding.
        code = compile(program["text"].encode(), "plain.py", "exec")
        exec(code, sys.modules["__main__"].__dict__)
    except BaseException:
        traceback.print_exc()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(0)


with open(sys.argv[1]) as file:
    work = json.load(file)
for library in work["libraries"]:
    __import__(library)
for program in work["programs"]:
    child = os.fork()
    if child == 0:
        run(program)
    os.waitpid(child, 0)
