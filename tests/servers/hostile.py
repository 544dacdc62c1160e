"""A server that speaks the Model Context Protocol over its standard input and output, and misbehaves
where it is asked to. Its first argument says how its list of tools looks."""

import base64
import json
import os
import select
import struct
import sys
import threading
import time
import zlib

MODE = sys.argv[1] if len(sys.argv) > 1 else "plain"
TEXT = {"type": "string"}
PLAIN = {
    "echo": {"text": TEXT},
    "where": {},
    "read": {"path": TEXT},
    "write": {"path": TEXT, "content": {"type": "string", "contentMediaType": "text/plain"}},
    "sneak": {"blob": {"type": "string", "contentMediaType": "text/plain"}},
    "roots": {},
    "ask": {},
    "form": {},
    "sample": {},
    "control": {},
    "big": {},
    "parts": {},
    "image": {},
    "pictures": {"count": {"type": "integer"}, "width": {"type": "integer"}},
    "fail": {},
    "deep": {},
    "flood": {},
    "die": {},
    "hang": {},
    "grow": {},
    "work": {},
    "restless": {},
    "pester": {},
}
tools = dict(PLAIN)
waiting = {}
asked = 0
lists = True


def say(message):
    sys.stdout.write(json.dumps({"jsonrpc": "2.0", **message}) + "\n")
    sys.stdout.flush()


def text(words, **more):
    return {"content": [{"type": "text", "text": words}], **more}


def described(name, properties):
    return {"name": name, "description": name, "inputSchema": {"type": "object", "properties": properties}}


def nested(levels):
    value = {}
    for _ in range(levels):
        value = {"properties": {"a": value}}
    return value


def listed():
    if MODE == "names":
        return [
            described("good", {}),
            described("a b", {}),
            described("x\x1b[2Jy", {}),
            described("n" * 80, {}),
            described("twice", {}),
            described("twice", {}),
            described("huge", {"a": {"description": "x" * 40_000}}),
            {"name": "list", "inputSchema": {"type": "array"}},
            {**described("deep", {}), "inputSchema": {"type": "object", **nested(60)}},
            {**described("loud", {}), "description": "loud\x1b[31m\u202e" + "!" * 5000},
        ]
    plain = [described(name, properties) for name, properties in tools.items()]
    if MODE == "loose":
        return [{"name": "loose"}, {"description": "nameless"}, *plain]
    return plain


def attempt(action):
    try:
        return text(action())
    except OSError as error:
        return text(f"refused: {error.strerror}", isError=True)


def read(path):
    with open(path, encoding="utf-8") as file:
        return file.read()


def write(path, content):
    with open(path, "w", encoding="utf-8") as file:
        file.write(content)
    return "written"


# The capabilities for lists of PAGES pages, with one entry each.
PAGED_LISTS = {"resources": {}, "prompts": {}} if MODE == "pages" else {}
PAGES = int(sys.argv[2]) if MODE == "pages" else 0


def page(method, params):
    number = int(params.get("cursor", "1"))
    entry = {"name": f"entry{number}"}
    result = {"prompts": [entry]}
    if method == "resources/list":
        result = {"resources": [{"uri": f"text://{number}/", **entry}]}
    if number < PAGES:
        result["nextCursor"] = str(number + 1)
    return result


def ask_back(request, method, params):
    global asked
    asked += 1
    waiting[f"q{asked}"] = request
    say({"id": f"q{asked}", "method": method, "params": params})


def pictures(count, width):
    """So many images of this width, whose bytes are not what the server says they are."""
    def chunk(name, data):
        return struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))

    head = chunk(b"IHDR", struct.pack(">IIBBBBB", width, 1, 8, 2, 0, 0, 0))
    # One row of black pixels, not compressed, so that its bytes are the same everywhere.
    row = chunk(b"IDAT", zlib.compress(bytes(1 + 3 * width), 0))
    whole = b"\x89PNG\r\n\x1a\n" + head + row + chunk(b"IEND", b"")
    data = base64.b64encode(whole).decode()
    return {"content": [{"type": "image", "data": data, "mimeType": "text/html"}] * count}


def work(token):
    for step in range(1, 101):
        say({"method": "notifications/progress", "params": {
            "progressToken": token, "progress": step, "total": 100, "message": "step\x1b[2J"}})
    return text("worked")


def pester(request):
    """Asks as long as somebody hears it, without reading an answer, and tells how often it could."""
    os.set_blocking(1, False)
    count, rest = 0, b""
    while count < 200_000 and not rest:
        count += 1
        rest = (json.dumps({"jsonrpc": "2.0", "id": f"p{count}", "method": "roots/list"}) + "\n").encode()
        while rest and select.select([], [1], [], 2)[1]:
            try:
                rest = rest[os.write(1, rest):]
            except BlockingIOError:
                pass
    os.set_blocking(1, True)

    def end():
        os.write(1, rest)
        say({"id": request, "result": text(f"pestered {count} times")})

    threading.Thread(target=end).start()


def call(request, name, arguments, token):
    global lists
    if name == "hang":
        return None
    if name == "die":
        sys.stderr.write("last words\x1b[2J of " + os.environ.get("WORD", "nobody") + "\n")
        sys.stderr.flush()
        os._exit(3)
    if name == "flood":
        while True:
            sys.stdout.write("x" * 65536)
            sys.stdout.flush()
    if name == "pester":
        return pester(request)
    if name == "restless":
        lists = False
        say({"method": "notifications/tools/list_changed"})
        return text("restless")
    if name == "work":
        return work(token)
    if name == "roots":
        return ask_back(request, "roots/list", {})
    if name == "ask":
        form = {"type": "object", "properties": {"a": TEXT}}
        return ask_back(request, "elicitation/create", {"message": "?", "requestedSchema": form})
    if name == "form":
        form = {"type": "object", "required": ["color"], "properties": {
            "color": {"type": "string", "enum": ["red", "blue"], "description": "of the\x1b[2J door"},
            "count": {"type": "integer", "default": 3}}}
        return ask_back(request, "elicitation/create", {"message": "How?", "requestedSchema": form})
    if name == "sample":
        messages = [{"role": "user", "content": {"type": "text", "text": "hi"}}]
        return ask_back(request, "sampling/createMessage", {"messages": messages, "maxTokens": 5})
    if name == "deep":
        sys.stdout.write('{"jsonrpc":"2.0","id":%s,"result":{"content":[],"structuredContent":{"a":%s1%s}}}\n'
                         % (json.dumps(request), "[" * 100_000, "]" * 100_000))
        sys.stdout.flush()
        return None
    if name == "grow":
        tools["grown"] = {}
        del tools["echo"]
        say({"method": "notifications/tools/list_changed"})
        return text("grown")
    answers = {
        "echo": lambda: text("echo: " + arguments.get("text", "")),
        "where": lambda: text(json.dumps({"cwd": os.getcwd(), "mode": MODE, "home": os.environ.get("HOME"),
                                          "word": os.environ.get("WORD"), "env": sorted(os.environ)})),
        "read": lambda: attempt(lambda: read(arguments["path"])),
        "write": lambda: attempt(lambda: write(arguments["path"], arguments["content"])),
        "sneak": lambda: attempt(lambda: read(arguments["blob"])),
        "control": lambda: text("a\x1b[2Jb\u202ec\x07"),
        "big": lambda: text("y" * 1_000_000),
        "parts": lambda: {"content": [{"type": "text", "text": "p"}] * 2000},
        "image": lambda: {"content": [{"type": "image", "data": "QUJD", "mimeType": "image/png"}]},
        "pictures": lambda: pictures(arguments["count"], arguments["width"]),
        "fail": lambda: text("it went wrong", isError=True),
        "grown": lambda: text("still growing"),
    }
    return answers.get(name, lambda: text("unknown tool", isError=True))()


def main():
    if MODE == "dead":
        sys.stderr.write("cannot start without " + os.environ.get("WORD", "a word") + "\n")
        sys.exit(4)
    for line in sys.stdin:
        message = json.loads(line)
        method, request = message.get("method"), message.get("id")
        if MODE == "mute":
            time.sleep(3600)
        if method == "initialize":
            say({"id": request, "result": {
                "protocolVersion": message["params"]["protocolVersion"],
                "capabilities": {"tools": {"listChanged": True}, **PAGED_LISTS},
                "serverInfo": {"name": "hostile", "version": "1"},
            }})
        elif method == "tools/list" and not lists:
            sys.stderr.write("not listed\n")
            sys.stderr.flush()
        elif method == "tools/list" and MODE == "endless":
            long = [{**described(f"t{request}", {}), "description": "x" * 4_000_000}]
            say({"id": request, "result": {"tools": long, "nextCursor": "more"}})
        elif method == "tools/list" and MODE == "again":
            say({"id": request, "result": {"tools": listed(), "nextCursor": "the same"}})
        elif method == "tools/list":
            say({"id": request, "result": {"tools": listed()}})
        elif method in ("resources/list", "prompts/list") and PAGED_LISTS:
            say({"id": request, "result": page(method, message.get("params") or {})})
        elif method == "tools/call":
            params = message["params"]
            token = (params.get("_meta") or {}).get("progressToken")
            result = call(request, params["name"], params.get("arguments") or {}, token)
            if result is not None:
                say({"id": request, "result": result})
        elif method == "notifications/cancelled":
            sys.stderr.write("cancelled: " + json.dumps(message["params"].get("requestId")) + "\n")
            sys.stderr.flush()
        elif method is None and request in waiting:
            say({"id": waiting.pop(request), "result": text("answered: " + json.dumps(
                message.get("result", message.get("error"))))})
        elif request is not None and method is not None:
            say({"id": request, "error": {"code": -32601, "message": "no such method"}})


main()
