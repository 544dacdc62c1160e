"""A server that begins connections in the way that its argument names.

`newest` knows only the protocol without a handshake; `ends` exits at a first message other than
`initialize`; `empty` answers every unknown request with an empty result.
Its tool `begun` returns how the connection began, and the version in the metadata of the call.
"""
import json, sys

manner, begun = sys.argv[1], None

def answer(asked, result=None, error=None):
    said = {"jsonrpc": "2.0", "id": asked["id"]}
    said.update({"error": error} if error else {"result": result})
    print(json.dumps(said), flush=True)

for line in sys.stdin:
    asked = json.loads(line)
    if "id" not in asked:
        continue
    method, params = asked["method"], asked.get("params") or {}
    version = (params.get("_meta") or {}).get("io.modelcontextprotocol/protocolVersion")
    done = {"resultType": "complete"} if manner == "newest" else {}
    if method == "initialize" and manner != "newest":
        begun = "initialize"
        info = {"name": "begins", "version": "1"}
        answer(asked, {"protocolVersion": params["protocolVersion"], "capabilities": {"tools": {}}, "serverInfo": info})
    elif method == "server/discover" and manner == "newest":
        begun = "discover"
        answer(asked, {**done, "supportedVersions": ["2026-07-28"], "capabilities": {"tools": {}}, "ttlMs": 0, "cacheScope": "private"})
    elif begun is None and manner == "ends":
        sys.exit("expected `initialize`")
    elif method == "tools/list" and begun:
        tools = [{"name": "begun", "inputSchema": {"type": "object"}}]
        answer(asked, {**done, "tools": tools, "ttlMs": 0, "cacheScope": "private"})
    elif method == "tools/call" and begun:
        text = json.dumps({"begun": begun, "version": version})
        answer(asked, {**done, "content": [{"type": "text", "text": text}]})
    elif manner == "empty":
        answer(asked, {})
    else:
        answer(asked, error={"code": -32601, "message": "no such method"})
