"""A read-only file system whose names are compared without case, over /dev/fuse.

usage: folding_disk.py MOUNT_POINT

Prints `ready` when it is mounted, and ends when it is unmounted. It needs the rights to mount: those
of root, or of a user namespace. Every spelling of a name leads to the same node, and directories list
the one spelling that is written here.
"""

import ctypes
import errno
import os
import struct
import sys

TREE = {
    "readme.txt": b"plain\n",
    "secrets": {"key": b"CANARY-SECRET\n"},
    "vendor": {"lib.c": b"vendor\n"},
    "app": {"server.pem": b"CANARY-PEM\n", "main.c": b"main\n"},
}

# Requests of the protocol (linux/fuse.h).
LOOKUP, FORGET, GETATTR, OPEN, READ, STATFS = 1, 2, 3, 14, 15, 17
RELEASE, FLUSH, INIT, OPENDIR, READDIR, RELEASEDIR, BATCH_FORGET = 18, 25, 26, 27, 28, 29, 42
VALID_SECONDS = 60
HEADER = struct.Struct("<IIQQIIII")


class Node:
    """One file or directory; the root has number 1."""

    nodes = {}

    def __init__(self, content):
        self.number = len(Node.nodes) + 1
        Node.nodes[self.number] = self
        self.content = content
        self.entries = None
        if isinstance(content, dict):
            self.entries = {name: Node(below) for name, below in content.items()}

    def attributes(self):
        is_directory = self.entries is not None
        mode = 0o040755 if is_directory else 0o100644
        size = 4096 if is_directory else len(self.content)
        links = 2 if is_directory else 1
        times = struct.pack("<3Q3I", 1, 1, 1, 0, 0, 0)
        owner = struct.pack("<4I", mode, links, os.getuid(), os.getgid())
        return struct.pack("<3Q", self.number, size, 8) + times + owner + struct.pack("<3I", 0, 4096, 0)

    def child(self, name):
        folded = name.decode("utf-8", "surrogateescape").casefold()
        for own, node in (self.entries or {}).items():
            if own.casefold() == folded:
                return node
        return None

    def listing(self, offset):
        out = b""
        for index, (name, node) in enumerate((self.entries or {}).items()):
            if index < offset:
                continue
            text = name.encode()
            kind = 4 if node.entries is not None else 8
            out += struct.pack("<QQII", node.number, index + 1, len(text), kind) + text
            out += b"\0" * (-len(text) % 8)
        return out


def mount(point):
    device = os.open("/dev/fuse", os.O_RDWR)
    libc = ctypes.CDLL(None, use_errno=True)
    options = f"fd={device},rootmode=40000,user_id={os.getuid()},group_id={os.getgid()}"
    if os.getuid() == 0:
        options += ",allow_other"
    if libc.mount(b"folding", point.encode(), b"fuse", 0, options.encode()) != 0:
        sys.exit("mount: " + os.strerror(ctypes.get_errno()))
    return device


def answer(device, unique, data=b"", error=0):
    os.write(device, struct.pack("<IiQ", 16 + len(data), -error, unique) + data)


def serve(device):
    while True:
        try:
            request = os.read(device, 1 << 20)
        except OSError as error:
            if error.errno == errno.ENODEV:
                return
            continue
        _, kind, unique, number, *_ = HEADER.unpack_from(request)
        body = request[HEADER.size :]
        node = Node.nodes.get(number)
        if kind in (FORGET, BATCH_FORGET):
            continue
        if kind == INIT:
            answer(device, unique, struct.pack("<IIIIHHII", 7, 31, 65536, 0, 12, 9, 65536, 1) + b"\0" * 36)
        elif kind == LOOKUP:
            found = node.child(body.split(b"\0")[0])
            if found is None:
                answer(device, unique, error=errno.ENOENT)
            else:
                head = struct.pack("<QQQQII", found.number, 0, VALID_SECONDS, VALID_SECONDS, 0, 0)
                answer(device, unique, head + found.attributes())
        elif kind == GETATTR:
            answer(device, unique, struct.pack("<QII", VALID_SECONDS, 0, 0) + node.attributes())
        elif kind in (OPEN, OPENDIR):
            answer(device, unique, struct.pack("<QII", 0, 0, 0))
        elif kind == READDIR:
            answer(device, unique, node.listing(struct.unpack_from("<Q", body, 8)[0]))
        elif kind == READ:
            offset, size = struct.unpack_from("<QI", body, 8)
            answer(device, unique, node.content[offset : offset + size])
        elif kind in (RELEASE, RELEASEDIR, FLUSH):
            answer(device, unique)
        elif kind == STATFS:
            answer(device, unique, struct.pack("<5Q4I", 1000, 500, 500, 100, 50, 4096, 255, 4096, 0) + b"\0" * 24)
        else:
            answer(device, unique, error=errno.ENOSYS)


if __name__ == "__main__":
    Node(TREE)
    opened = mount(sys.argv[1])
    print("ready", flush=True)
    serve(opened)
