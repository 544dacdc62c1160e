#!/usr/bin/env python3
"""Writes build/function_order.ld: which functions the linker places together, because runs execute
them. See docs/decisions/0113-functions-that-run-are-placed-together.md.

    CARGO_PROFILE_RELEASE_STRIP=none cargo build --release --locked
    python3 tests/release/function_order.py target/release/massgen build/function_order.ld

Runs the program on the offline demo and on single commands, with a breakpoint at each function, and
records which of them are reached. Needs Linux on x86-64 and `nm`.
"""

import ctypes
import os
import re
import signal
import subprocess
import sys
import tempfile

# The most lines of the list. Fewer lines name whole modules instead of single functions.
LINES_MAX = 1200

DEMO = ["--config", "@examples/basic/offline_demo", "Write a program that greets my project"]
COMMANDS = [["--version"], DEMO, ["sandbox", "--", "true"]]

# From <sys/ptrace.h> and <bits/waitflags.h>.
PTRACE_TRACEME, PTRACE_POKETEXT, PTRACE_PEEKTEXT = 0, 4, 1
PTRACE_CONT, PTRACE_GETREGS, PTRACE_SETREGS, PTRACE_DETACH = 7, 12, 13, 17
PTRACE_SETOPTIONS = 0x4200
# Follow fork, vfork, clone and exec; end the tracees with the tracer.
OPTIONS = 0x2 | 0x4 | 0x8 | 0x10 | 0x100000
EVENT_EXEC = 4
WALL = 0x40000000
ADDR_NO_RANDOMIZE = 0x0040000
BREAKPOINT = 0xCC

libc = ctypes.CDLL(None, use_errno=True)
libc.ptrace.argtypes = [ctypes.c_long, ctypes.c_long, ctypes.c_void_p, ctypes.c_void_p]
libc.ptrace.restype = ctypes.c_long


class Registers(ctypes.Structure):
    """`struct user_regs_struct` of x86-64."""

    _fields_ = [
        ("before", ctypes.c_ulong * 16),
        ("rip", ctypes.c_ulong),
        ("after", ctypes.c_ulong * 10),
    ]


class Program:
    """The functions of an executable file."""

    def __init__(self, path):
        self.path = os.path.realpath(path)
        self.functions = {}
        listed = subprocess.run(["nm", "-S", self.path], check=True, capture_output=True, text=True)
        for line in listed.stdout.splitlines():
            parts = line.split(None, 3)
            if len(parts) == 4 and parts[2] in "tTwW":
                address, size, _, name = parts
                self.functions[int(address, 16)] = (name, int(size, 16))
        if not self.functions:
            sys.exit(f"{path} has no symbols; build it with CARGO_PROFILE_RELEASE_STRIP=none")
        self.first, self.end = min(self.functions), max(self.functions) + 8
        self.reached = set()

    def run(self, arguments, directory):
        """Runs the program and adds the functions that it and its children reach."""
        pid = os.fork()
        if pid == 0:
            os.chdir(directory)
            null = os.open("/dev/null", os.O_RDWR)
            os.dup2(null, 1)
            os.dup2(null, 2)
            libc.personality(ADDR_NO_RANDOMIZE)
            libc.ptrace(PTRACE_TRACEME, 0, None, None)
            environment = {"HOME": directory, "PATH": os.environ["PATH"]}
            os.execve(self.path, [self.path, *arguments], environment)
        os.waitpid(pid, 0)
        libc.ptrace(PTRACE_SETOPTIONS, pid, None, OPTIONS)
        bases, code = {}, {}
        self.set_breakpoints(pid, bases, code)
        libc.ptrace(PTRACE_CONT, pid, None, None)
        while True:
            try:
                stopped, status = os.waitpid(-1, WALL)
            except ChildProcessError:
                return
            if os.WIFSTOPPED(status):
                self.resume(stopped, status, bases, code)

    def resume(self, pid, status, bases, code):
        """Handles one stop of a process and lets it go on."""
        number, event = os.WSTOPSIG(status), status >> 16
        if event == EVENT_EXEC:
            if not self.set_breakpoints(pid, bases, code):
                libc.ptrace(PTRACE_DETACH, pid, None, None)
                return
        elif number == signal.SIGTRAP and not event:
            registers = Registers()
            libc.ptrace(PTRACE_GETREGS, pid, None, ctypes.byref(registers))
            at = registers.rip - 1
            for base in set(bases.values()):
                if at - base in self.functions:
                    self.reached.add(at - base)
                    word = libc.ptrace(PTRACE_PEEKTEXT, pid, at, None) & ~0xFF
                    libc.ptrace(PTRACE_POKETEXT, pid, at, word | code[at - base])
                    registers.rip = at
                    libc.ptrace(PTRACE_SETREGS, pid, None, ctypes.byref(registers))
                    break
        passed_on = 0 if event or number in (signal.SIGTRAP, signal.SIGSTOP) else number
        libc.ptrace(PTRACE_CONT, pid, None, passed_on)

    def set_breakpoints(self, pid, bases, code):
        """Sets a breakpoint at each function of a process that has just started this program."""
        if os.path.realpath(f"/proc/{pid}/exe") != self.path:
            return False
        with open(f"/proc/{pid}/maps", encoding="utf-8") as maps:
            bases[pid] = base = int(maps.readline().split("-")[0], 16)
        with open(f"/proc/{pid}/mem", "r+b", buffering=0) as memory:
            memory.seek(base + self.first)
            text = bytearray(memory.read(self.end - self.first))
            for address in self.functions:
                code[address] = text[address - self.first]
                text[address - self.first] = BREAKPOINT
            memory.seek(base + self.first)
            memory.write(text)
        return True


def path_of(name):
    """Returns the path of a mangled name as parts, of which each prefix, followed by `*`, is a
    pattern for names that begin alike. Hashes are left out."""
    if not name.startswith("_ZN"):
        # The second version of the mangling names a crate by its hash and its name.
        crate = re.match(r"_R.*?Cs[0-9A-Za-z]*(?=_\d)", name)
        return ("_R*", *components_of(name[crate.end() + 1 :])) if crate else (name,)
    components = components_of(name[3:])
    if re.fullmatch(r"17h[0-9a-f]{16}", components[-1]):
        components.pop()
    implemented = re.match(r"\d+(_(?:\$\w+?\$)*)(\w+\.\.\w+)((?:\.\.\w+)*)", components[0])
    if implemented:
        before, crate_and_module, below = implemented.groups()
        below = [f"..{part}" for part in below.split("..")[1:]]
        return (f"_ZN*{before}{crate_and_module}", *below, *[f"*{part}" for part in components[1:]])
    return (f"_ZN{components[0]}", *components[1:])


def components_of(mangled):
    """Returns the parts at the beginning of a mangled path, each with its length before it."""
    components = []
    while match := re.match(r"\d+", mangled):
        end = match.end() + int(match.group())
        components.append(mangled[:end])
        mangled = mangled[end:]
    return components


def fold(program):
    """Returns the patterns of at most `LINES_MAX` lines for all functions that were reached, those
    first of which most is executed."""
    size, executed = {}, {}
    reached = set()
    for address, (name, length) in program.functions.items():
        path = path_of(name)
        path = tuple(re.sub(r"[^0-9A-Za-z_.$*]", "?", part) for part in path)
        for end in range(1, len(path) + 1):
            size[path[:end]] = size.get(path[:end], 0) + length
            if address in program.reached:
                executed[path[:end]] = executed.get(path[:end], 0) + length
        if address in program.reached:
            reached.add(path)
    chosen = set()
    for path in sorted(reached, key=len):
        if not any(path[:end] in chosen for end in range(1, len(path))):
            chosen.add(path)
    while len(chosen) > LINES_MAX:
        below = {}
        for path in chosen:
            for end in range(1, len(path)):
                below.setdefault(path[:end], []).append(path)
        costs = [
            ((size[parent] - sum(size[path] for path in paths)) / (len(paths) - 1), parent)
            for parent, paths in below.items()
            if len(paths) > 1
        ]
        _, parent = min(costs)
        chosen -= set(below[parent])
        chosen.add(parent)
    return sorted(chosen, key=lambda path: (-round(executed[path] / size[path], 1), path))


def main():
    binary, written = sys.argv[1:]
    program = Program(binary)
    with tempfile.TemporaryDirectory() as directory:
        subprocess.run(["git", "init", "-q", directory], check=True)
        for command in COMMANDS:
            program.run(command, directory)
    patterns = ["".join(path) for path in fold(program)]
    lines = [f"        *(.text.{pattern}*)" for pattern in patterns]
    with open(written, "w", encoding="utf-8") as script:
        script.write("/* Made by tests/release/function_order.py. */\n")
        script.write("SECTIONS\n{\n    .text.run :\n    {\n")
        script.write("\n".join(lines))
        script.write("\n    }\n}\nINSERT BEFORE .text;\n")
    executed = f"{len(program.reached)} of {len(program.functions)} functions"
    print(f"{executed} are executed; {len(lines)} patterns name them")


main()
