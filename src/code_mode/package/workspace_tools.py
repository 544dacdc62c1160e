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


def _take_connection():
    """Takes the connection to massgen from standard input, which is empty from then on."""
    connection = _os.dup(0)
    dev_null = _os.open("/dev/null", _os.O_RDONLY)
    _os.dup2(dev_null, 0)
    _os.close(dev_null)
    return connection


class _PendingCall:
    """A call that waits for its answer."""

    def __init__(self):
        self.answer = None
        self.is_answered = _threading.Event()

    def finish(self, answer):
        self.answer = answer
        self.is_answered.set()


_connection = _take_connection()
_call_ids = _itertools.count(1)
_write_lock = _threading.Lock()
# Protects the two variables below.
_state_lock = _threading.Lock()
_pending_calls = {}
# Why no call is possible any more.
_end_reason = None


def _fail_pending_calls(reason):
    global _end_reason
    with _state_lock:
        _end_reason = reason
        pending_calls = list(_pending_calls.values())
        _pending_calls.clear()
    for pending_call in pending_calls:
        pending_call.finish({"outcome": "failed", "content": reason})


def _receive_answers():
    with _os.fdopen(_os.dup(_connection), "rb") as lines:
        for line in lines:
            answer = _json.loads(line)
            with _state_lock:
                pending_call = _pending_calls.pop(answer["id"], None)
            if pending_call is not None:
                pending_call.finish(answer)
    _fail_pending_calls("massgen takes no more calls")


_threading.Thread(target=_receive_answers, daemon=True).start()


def _is_below(path, roots):
    return any(path == root or path.startswith(root.rstrip("/") + "/") for root in roots)


def _check_path(path, is_write):
    """Refuses a path outside the directories. massgen itself also checks where it leads."""
    if not _CHECKS_PATHS:
        return
    if not isinstance(path, str) or not path or "\0" in path:
        raise ToolError("denied: %r is not a path" % (path,))
    if not _ALLOWS_PARENTS and ".." in path.replace("\\", "/").split("/"):
        raise ToolError("denied: %s: `..` is not allowed in a path" % path)
    absolute_path = _posixpath.normpath(_posixpath.join(_BASE, path))
    if absolute_path.startswith("//"):
        absolute_path = absolute_path[1:]
    allowed = _WRITE if is_write else _READ
    # Writes where only reading is allowed are left to massgen, which gives the reason.
    if not _is_below(absolute_path, _WRITE + _READ if is_write else _READ):
        kind = "write" if is_write else "read"
        raise ToolError(
            "denied: path %s is outside allowed %s boundaries (allowed: %s)"
            % (path, kind, ", ".join(allowed) or "nothing")
        )


def _call(tool, arguments, paths):
    arguments = {name: value for name, value in arguments.items() if value is not None}
    for name, is_write in paths:
        value = arguments.get(name)
        if value is None:
            continue
        for path in value if isinstance(value, list) else [value]:
            _check_path(path, is_write)
    call_id = next(_call_ids)
    frame = _json.dumps({"id": call_id, "tool": tool, "arguments": arguments})
    frame = frame.encode("utf-8", "surrogatepass") + b"\n"
    if len(frame) > _FRAME_BYTES_MAX:
        raise ToolError("the call of %s has %d bytes, which is too many" % (tool, len(frame)))
    pending_call = _PendingCall()
    with _state_lock:
        if _end_reason is not None:
            raise ToolError(_end_reason)
        _pending_calls[call_id] = pending_call
    with _write_lock:
        rest = memoryview(frame)
        while rest:
            try:
                rest = rest[_os.write(_connection, rest):]
            except OSError as error:
                raise ToolError("massgen takes no more calls") from error
    pending_call.is_answered.wait()
    answer = pending_call.answer
    if answer["outcome"] != "done":
        raise ToolError(answer["content"])
    return answer["content"]
