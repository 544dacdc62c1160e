"""Measures the terminal view of a program: the time until all agents are on the screen, and the peak
memory of all its processes from then until its run has ended.

    python3 terminal.py END COMMAND...

END is a text on the screen at which the run has ended; a program that exits has ended too. Needs the
package `pyte`. Prints one line of JSON.
"""

import fcntl
import json
import os
import pty
import select
import signal
import struct
import sys
import termios
import time

import pyte

COLUMNS, ROWS = 120, 40
AGENTS = ["alpha", "beta", "gamma", "delta"]
SAMPLE_SECONDS = 0.1
LIMIT_SECONDS = 120


def tree(root):
    """Returns a process and all processes below it."""
    children = {}
    for name in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{name}/stat") as file:
                parent = int(file.read().rpartition(")")[2].split()[1])
        except OSError:
            continue
        children.setdefault(parent, []).append(int(name))
    found = [root]
    for process in found:
        found.extend(children.get(process, []))
    return found


def memory_mib(root):
    """Returns the proportional set size of a process and all below it."""
    kib = 0
    for process in tree(root):
        try:
            with open(f"/proc/{process}/smaps_rollup") as file:
                kib += sum(int(line.split()[1]) for line in file if line.startswith("Pss:"))
        except OSError:
            continue
    return kib / 1024


def main(end, command):
    screen = pyte.Screen(COLUMNS, ROWS)
    stream = pyte.ByteStream(screen)
    start = time.monotonic()
    child, terminal = pty.fork()
    if child == 0:
        fcntl.ioctl(0, termios.TIOCSWINSZ, struct.pack("HHHH", ROWS, COLUMNS, 0, 0))
        os.environ["TERM"] = "xterm-256color"
        os.execvp(command[0], command)
    first, peak, sampled = None, 0.0, 0.0
    while time.monotonic() - start < LIMIT_SECONDS:
        now = time.monotonic()
        if first is not None and now - sampled > SAMPLE_SECONDS:
            sampled, peak = now, max(peak, memory_mib(child))
        if select.select([terminal], [], [], 0.02)[0]:
            try:
                data = os.read(terminal, 65536)
            except OSError:
                break
            stream.feed(data)
            shown = "\n".join(screen.display)
            if first is None and all(name in shown for name in AGENTS):
                first = time.monotonic() - start
            if first is not None and end in shown:
                break
    elapsed = time.monotonic() - start
    try:
        os.kill(child, signal.SIGKILL)
    except ProcessLookupError:
        pass
    os.waitpid(child, 0)
    print(json.dumps({"first_frame_ms": first and round(first * 1000, 1), "peak_mib": round(peak, 1),
                      "run_s": round(elapsed, 1)}))


main(sys.argv[1], sys.argv[2:])
