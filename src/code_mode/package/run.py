"""Runs `program.py`, which is next to this file, so that it can import the package."""

import linecache
import os
import sys
import traceback

NAME = "program.py"


def main():
    here = os.path.dirname(os.path.abspath(__file__))
    sys.path.insert(0, here)
    # The package takes the connection to massgen before the program can use it.
    import workspace_tools  # noqa: F401

    with open(os.path.join(here, NAME), encoding="utf-8") as file:
        text = file.read()
    linecache.cache[NAME] = (len(text), None, text.splitlines(True), NAME)
    try:
        code = compile(text, NAME, "exec")
        exec(code, {"__name__": "__main__"})
    except SystemExit:
        raise
    except BaseException:
        kind, error, trace = sys.exc_info()
        # The first entry is this file.
        traceback.print_exception(kind, error, trace.tb_next)
        sys.exit(1)


main()
