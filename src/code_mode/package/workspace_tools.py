"""The tools that this program may call. Each function returns the text of its tool, and raises
ToolError when the tool fails or the call is denied. Calls may be made from several threads."""

from __future__ import annotations

import itertools as _itertools
import json as _json
import os as _os
import posixpath as _posixpath
import threading as _threading


class ToolError(Exception):
    """A call that failed or was denied, with the reason."""


def _take_line():
    """Takes the way to massgen from standard input, which is empty from then on."""
    line = _os.dup(0)
    nothing = _os.open("/dev/null", _os.O_RDONLY)
    _os.dup2(nothing, 0)
    _os.close(nothing)
    return line


_line = _take_line()
_numbers = _itertools.count(1)
_sending = _threading.Lock()
_waiting = {}
_state = _threading.Lock()
_over = None


def _fail_all(reason):
    global _over
    with _state:
        _over = reason
        waiting = list(_waiting.values())
        _waiting.clear()
    for box in waiting:
        box.append({"outcome": "failed", "content": reason})
        box[0].set()


def _receive():
    with _os.fdopen(_os.dup(_line), "rb") as answers:
        for answer in answers:
            answer = _json.loads(answer)
            with _state:
                box = _waiting.pop(answer["id"], None)
            if box is not None:
                box.append(answer)
                box[0].set()
    _fail_all("massgen takes no more calls")


_receiver = _threading.Thread(target=_receive, daemon=True)
_receiver.start()


def _is_below(path, roots):
    return any(path == root or path.startswith(root.rstrip("/") + "/") for root in roots)


def _check(path, writes):
    """Refuses a path outside the directories. massgen decides again where it really leads."""
    if not _CHECKS:
        return
    if not isinstance(path, str) or not path or "\0" in path:
        raise ToolError("denied: %r is not a path" % (path,))
    if not _PARENTS and ".." in path.replace("\\", "/").split("/"):
        raise ToolError("denied: %s: `..` is not allowed in a path" % path)
    whole = _posixpath.normpath(_posixpath.join(_BASE, path))
    if whole.startswith("//"):
        whole = whole[1:]
    allowed = _WRITE if writes else _READ
    # Where reading is allowed, massgen knows why writing is not, and whether it will be.
    if not _is_below(whole, _WRITE + _READ if writes else _READ):
        kind = "write" if writes else "read"
        raise ToolError(
            "denied: path %s is outside allowed %s boundaries (allowed: %s)"
            % (path, kind, ", ".join(allowed) or "nothing")
        )


def _call(tool, arguments, paths):
    arguments = {name: value for name, value in arguments.items() if value is not None}
    for name, writes in paths:
        value = arguments.get(name)
        if value is None:
            continue
        for path in value if isinstance(value, list) else [value]:
            _check(path, writes)
    number = next(_numbers)
    frame = _json.dumps({"id": number, "tool": tool, "arguments": arguments})
    frame = frame.encode("utf-8", "surrogatepass") + b"\n"
    if len(frame) > _FRAME_BYTES_MAX:
        raise ToolError("the call of %s has %d bytes, which is too many" % (tool, len(frame)))
    box = [_threading.Event()]
    with _state:
        if _over is not None:
            raise ToolError(_over)
        _waiting[number] = box
    with _sending:
        rest = memoryview(frame)
        while rest:
            try:
                rest = rest[_os.write(_line, rest):]
            except OSError as error:
                raise ToolError("massgen takes no more calls") from error
    box[0].wait()
    answer = box[1]
    if answer["outcome"] != "done":
        raise ToolError(answer["content"])
    return answer["content"]
