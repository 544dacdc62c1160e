# The files of every case. `ws` is the workspace, `ro` and `rw` are context paths; `outside`, `home` and
# `other` are opened to no agent.
mkdir -p ws ro/src rw/src rw/.git/hooks rw/.git/objects rw/.git/refs rw/.massgen/logs outside tmp \
  home/.ssh home/.aws home/.config other/workspace
printf 'ro readme\nsecond line\n' > ro/readme.txt
printf 'print(1)\n' > ro/src/main.py
printf 'rw readme\n' > rw/README.md
printf 'x = 1\n' > rw/src/app.py
printf '[core]\n\tbare = false\n' > rw/.git/config
printf 'ref: refs/heads/main\n' > rw/.git/HEAD
printf 'KEY=CANARY-DOTENV\n' > rw/.env
printf 'CANARY-STATE\n' > rw/.massgen/logs/events.jsonl
printf 'CANARY-OUTSIDE\n' > outside/secret.txt
printf 'original\n' > outside/victim.txt
printf 'CANARY-SSHKEY\n' > home/.ssh/id_rsa
printf 'CANARY-AWSKEY\n' > home/.aws/credentials
printf '# bashrc\n' > home/.bashrc
printf '[user]\n\tname = U\n\temail = u@example.invalid\n' > home/.gitconfig
printf 'CANARY-OTHERS\n' > other/workspace/notes.txt

# background COMMAND…: starts a process that does not belong to the call; its number is in `ws/pid`.
background() {
  setsid "$@" > /dev/null 2>&1 < /dev/null &
  echo $! > ws/pid
}

# appears FILE: waits for what a background process is about to make.
appears() {
  for _ in $(seq 3000); do
    [ ! -s "$1" ] || return 0
    sleep 0.01
  done
  return 1
}

# kernel: puts a Python module into the workspace that makes system calls by their numbers.
kernel() {
  cat > ws/kernel.py <<'EOF'
import ctypes, os, platform, sys

if platform.machine() != "x86_64":
    sys.exit("the numbers are those of x86_64")
libc = ctypes.CDLL(None, use_errno=True)
libc.syscall.restype = ctypes.c_long


def call(number, *arguments):
    """The result of a system call, or the negative number of its error."""
    words = [ctypes.c_long(a) if isinstance(a, int) else a for a in arguments]
    result = libc.syscall(ctypes.c_long(number), *words)
    return -ctypes.get_errno() if result == -1 else result


def must_fail(what, number, *arguments):
    """Tells when a system call works that must not."""
    if call(number, *arguments) >= 0:
        print("ESCAPED:", what)
EOF
}
