"""A `kubectl` for tests, whose pods are processes of this machine with namespaces of their own: each container
has its own processes and users, and a file system with the volumes of its pod. It needs root.

Files in the directory of the cluster say what is wrong: `down`, `full`, `forbidden` (a pod would not be admitted),
`closed` (the user may do nothing with pods), `broken` (how many more answers of
programs arrive only in part) and `open` (the address of a server that every pod reaches)."""

import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
import time

CLUSTER = os.environ["MASSGEN_TEST_CLUSTER"]
SETUP = """
mount --make-rprivate / || exit 1
root=$1; shift
mount -t tmpfs -o mode=755 none "$root" || exit 1
for name in bin sbin lib lib64 usr etc; do
  if [ -L "/$name" ]; then cp -d "/$name" "$root/$name"
  elif [ -d "/$name" ]; then mkdir "$root/$name" && mount --rbind "/$name" "$root/$name"; fi
done
mkdir -p "$root/proc" "$root/dev" "$root/home" "$root/run" && mkdir -m 1777 "$root/tmp"
mount -t proc proc "$root/proc" || exit 1
for name in null zero urandom; do : >"$root/dev/$name"; mount --bind "/dev/$name" "$root/dev/$name"; done
ln -s /proc/self/fd "$root/dev/fd"
while [ "$1" != -- ]; do mkdir -p "$root$2" && mount --bind "$1" "$root$2" || exit 1; shift 2; done
shift
exec chroot "$root" "$@"
"""


def path(*names):
    return os.path.join(CLUSTER, *names)


def is_wrong(name):
    return os.path.exists(path(name))


def fail(message):
    sys.stderr.write(message + "\n")
    sys.exit(1)


def rights(container):
    context = container["securityContext"]
    user, group = context["runAsUser"], context["runAsGroup"]
    assert context["capabilities"] == {"drop": ["ALL"]} and not context["allowPrivilegeEscalation"]
    return ["setpriv", f"--reuid={user}", f"--regid={group}", "--clear-groups", "--bounding-set=-all",
            "--no-new-privs"]


def environment():
    address = "127.0.0.1 9"
    if is_wrong("open"):
        address = open(path("open")).read()
    host, port = address.split()
    return {"PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "HOSTNAME": "massgen", "KUBERNETES_SERVICE_HOST": host,
            "KUBERNETES_SERVICE_PORT": port}


def start(pod, container):
    """Starts a container and returns the process that holds its namespaces."""
    place = path("pods", pod["metadata"]["name"])
    root = os.path.join(place, "root-" + container["name"])
    os.makedirs(root)
    mounts = []
    for mount in container["volumeMounts"]:
        source = os.path.join(place, "volumes", mount["name"], mount.get("subPath", ""))
        mounts += [source, mount["mountPath"]]
    network = [] if is_wrong("open") else ["--net"]
    words = ["unshare", "--mount", "--pid", "--fork", "--kill-child", *network, "sh", "-c", SETUP, "setup",
             root, *mounts, "--", *rights(container), *container["command"]]
    log = open(os.path.join(place, "log"), "a")
    return subprocess.Popen(words, stdin=subprocess.DEVNULL, stdout=log, stderr=log, env=environment(),
                            start_new_session=True)


def children(holder):
    try:
        return open(f"/proc/{holder}/task/{holder}/children").read().split()
    except FileNotFoundError:
        return []


def first_process(holder):
    """Returns the first process of a container, once it runs its command."""
    for _ in range(500):
        try:
            child = children(holder)
            if child and b"sleep" in open(f"/proc/{child[0]}/cmdline", "rb").read() \
                    and os.readlink(f"/proc/{child[0]}/root") != "/":
                return int(child[0])
        except OSError:
            pass
        time.sleep(0.01)
    fail("error: the container does not start")


def create_pod(pod):
    name = pod["metadata"]["name"]
    place = path("pods", name)
    os.makedirs(place)
    spec = pod["spec"]
    assert spec["securityContext"]["runAsNonRoot"] and not spec["automountServiceAccountToken"]
    os.umask(0)
    for volume in spec["volumes"]:
        os.makedirs(os.path.join(place, "volumes", volume["name"]), mode=0o777)
    os.umask(0o022)
    for container in spec["initContainers"]:
        if start(pod, container).wait() != 0:
            fail("error: " + open(os.path.join(place, "log")).read())
    holders = {}
    if not is_wrong("full"):
        for container in spec["containers"]:
            holders[container["name"]] = start(pod, container).pid
    write(name, {"object": pod, "holders": holders, "ended": None})


def write(name, state):
    with open(path("pods", name, "state.new"), "w") as file:
        json.dump(state, file)
    os.rename(path("pods", name, "state.new"), path("pods", name, "state"))


def read(name):
    try:
        with open(path("pods", name, "state")) as file:
            return json.load(file)
    except FileNotFoundError:
        return None


def shown(name):
    """Returns a pod as the API shows it; nothing if it does not exist."""
    state = read(name)
    if state is None:
        return None
    pod = dict(state["object"])
    names = [container["name"] for container in pod["spec"]["containers"]]
    if state["ended"]:
        pod["status"] = {"phase": "Failed", "reason": "Evicted", "message": state["ended"]}
    elif not state["holders"] and not is_wrong("full"):
        for container in pod["spec"]["containers"]:
            state["holders"][container["name"]] = start(pod, container).pid
        write(name, state)
        return shown(name)
    elif not state["holders"]:
        pod["status"] = {"phase": "Pending", "conditions": [{
            "type": "PodScheduled", "status": "False", "reason": "Unschedulable",
            "message": "0/2 nodes are available: 2 Insufficient cpu."}]}
    else:
        running = {"running": {"startedAt": "2026-11-26T10:00:00Z"}}
        statuses = [{"name": container, "state": running} for container in names]
        pod["status"] = {"phase": "Running", "containerStatuses": statuses}
    return pod


def end(state):
    for holder in state["holders"].values():
        # All processes of a container end with its first one.
        for process in [*children(holder), holder]:
            try:
                os.kill(int(process), signal.SIGKILL)
            except ProcessLookupError:
                pass


def names(kind):
    return sorted(os.listdir(path(kind)))


def write_policy(policy):
    name = policy["metadata"]["name"]
    os.makedirs(path("new"), exist_ok=True)
    with open(path("new", name), "w") as file:
        json.dump(policy, file)
    os.rename(path("new", name), path("policies", name))


def shown_policy(name):
    try:
        return json.load(open(path("policies", name)))
    except FileNotFoundError:
        return None


def selected(kind, flags):
    wanted = next(flag for flag in flags if flag.startswith("--selector=")).split("=", 1)[1]
    key, value = wanted.split("=")
    objects = [shown(name) if kind == "pods" else shown_policy(name) for name in names(kind)]
    return [found for found in objects if found and found["metadata"]["labels"].get(key) == value]


def execute(words):
    words.remove("--stdin")
    split = words.index("--")
    pod, flags, program = words[1], words[2:split], words[split + 1:]
    name = flags[flags.index("--container") + 1]
    state = read(pod)
    if state is None:
        fail(f'Error from server (NotFound): pods "{pod}" not found')
    if state["ended"]:
        fail("error: cannot exec into a container in a completed pod; current phase is Failed")
    container = next(found for found in state["object"]["spec"]["containers"] if found["name"] == name)
    target = first_process(state["holders"][name])
    words = ["nsenter", f"--target={target}", "--mount", "--pid", "--net", "--root", "env", "--chdir=/", "setsid",
             *rights(container), *program]
    done = subprocess.run(words, stdout=subprocess.PIPE, env=environment())
    output = done.stdout
    if is_wrong("broken"):
        left = int(open(path("broken")).read())
        if left > 0:
            open(path("broken"), "w").write(str(left - 1))
            sys.stdout.buffer.write(output[:len(output) // 2])
            sys.stdout.flush()
            fail("error: websocket: close 1006 (abnormal closure): unexpected EOF")
    sys.stdout.buffer.write(output)
    sys.stdout.flush()
    if done.returncode != 0:
        sys.stderr.write(f"command terminated with exit code {done.returncode}\n")
    sys.exit(done.returncode)


def main(words):
    words = [word for word in words if word not in ("--context=lab", "--namespace=evals")
             and not word.startswith("--cache-dir=")]
    os.makedirs(path("pods"), exist_ok=True)
    os.makedirs(path("policies"), exist_ok=True)
    if is_wrong("down"):
        fail("The connection to the server 10.0.0.1:6443 was refused - did you specify the right host or port?")
    if words[0] == "create" and "--dry-run=server" in words:
        if is_wrong("forbidden"):
            fail('Error from server (Forbidden): error when creating "STDIN": pods "massgen-doctor" is forbidden: '
                 'exceeded quota: small')
    elif words[:2] == ["auth", "can-i"]:
        assert len(words) == 5, words
        print("no" if is_wrong("closed") else "yes")
        sys.exit(1 if is_wrong("closed") else 0)
    elif words[0] == "create":
        for item in json.load(sys.stdin)["items"]:
            if item["kind"] == "Pod":
                create_pod(item)
            else:
                write_policy(item)
    elif words[0] == "get" and words[1] == "pod":
        pod = shown(words[2])
        if pod:
            print(json.dumps(pod))
    elif words[0] == "get":
        items = selected("pods", words)
        if "networkpolicies" in words[1]:
            items += selected("policies", words)
        print(json.dumps({"kind": "List", "items": items}))
    elif words[0] == "delete":
        for word in words[1:]:
            kind, _, name = word.partition("/")
            state = read(name) if kind == "pod" else None
            if state:
                end(state)
                shutil.rmtree(path("pods", name), ignore_errors=True)
            elif kind.startswith("networkpolicy"):
                with contextlib.suppress(FileNotFoundError):
                    os.remove(path("policies", name))
    elif words[0] == "evict":
        state = read(words[1])
        state["ended"] = "The node was low on resource: memory. "
        write(words[1], state)
        end(state)
    elif words[0] == "exec":
        execute(words)
    else:
        fail(f"error: unknown command {words}")


main(sys.argv[1:])
