"""The client of the conformance suite: writes a config for the scenario, and runs massgen with it.

Takes the path of massgen and, from the suite, the address of its server. Signs in where the scenario
needs it, and again for the scopes that a run lacks. Ends with the status of the last run.
"""
import json, os, re, socket, stat, subprocess, sys, tempfile, threading

massgen, url = sys.argv[1], sys.argv[-1]
scenario = os.environ["MCP_CONFORMANCE_SCENARIO"]
context = json.loads(os.environ.get("MCP_CONFORMANCE_CONTEXT") or "{}")
here = os.path.dirname(os.path.abspath(__file__))
home = tempfile.mkdtemp(prefix="home.", dir=here)
os.chdir(home)

# A browser that follows the redirect of the file that it is given, and agrees to everything.
BROWSER = """#!/usr/bin/python3
import html, re, sys, urllib.request
page = urllib.request.urlopen(sys.argv[1]).read().decode()
urllib.request.urlopen(html.unescape(re.search('url=([^"]*)', page)[1])).read()
"""
os.mkdir("bin")
with open("bin/xdg-open", "w") as file:
    file.write(BROWSER)
os.chmod("bin/xdg-open", 0o755)

def tool(name, /, **arguments):
    return {"name": f"mcp__t__{name}", "arguments": arguments}

CALLS = {
    "tools_call": [tool("add_numbers", a=2, b=3)],
    "sse-retry": [tool("test_reconnection")],
    "elicitation-sep1034-client-defaults": [tool("test_client_elicitation_defaults")],
    "sep-2322-client-request-state": [
        tool("test_mrtr_echo_state"),
        tool("test_mrtr_unrelated"),
        tool("test_mrtr_no_state"),
        tool("test_mrtr_no_result_type"),
    ],
    "http-standard-headers": [
        tool("test_headers"),
        tool("my-hyphenated-tool"),
        tool("list_resources"),
        tool("list_prompts"),
        tool("read_resource", uri="file:///path/to/file%20name.txt"),
        tool("read_resource", uri="https://example.com/resource?id=123"),
        tool("get_prompt", name="test_prompt"),
    ],
    "http-invalid-tool-headers": [tool("valid_tool", region="us-east1")],
    "request-metadata": [],
    "initialize": [],
    "json-schema-ref-no-deref": [],
}
calls = CALLS.get(scenario, [tool("test-tool")])
if "toolCalls" in context:
    calls = [tool(call["name"], **call.get("arguments", {})) for call in context["toolCalls"]]

oauth = {key: context[key] for key in ("client_id", "client_secret") if key in context}
if scenario == "auth/basic-cimd":
    oauth = {"client_id": "https://conformance-test.local/client-metadata.json"}

def write_config(calls):
    replies = [{"calls": [call]} for call in calls]
    replies.append({"calls": [{"name": "new_answer", "arguments": {"content": "done"}}]})
    server = {"name": "t", "url": url, "security": {"allow_localhost": True}, "oauth": oauth,
              "content_arguments": ["read_resource.uri"]}
    backend = {"type": "scripted", "cwd": "w1", "mcp_servers": [server], "replies": replies}
    with open("team.yaml", "w") as file:
        json.dump({"agents": [{"id": "one", "backend": backend}]}, file)

write_config(calls)

# Answers every question of a server with Enter alone, which takes the default.
def answer(listener):
    while True:
        connection, _ = listener.accept()
        connection.makefile().readline()
        connection.sendall(b'{"text": ""}\n')
        connection.close()

listener = socket.socket(socket.AF_UNIX)
listener.bind("ask.sock")
os.chmod("ask.sock", stat.S_IRUSR | stat.S_IWUSR)
listener.listen()
threading.Thread(target=answer, args=(listener,), daemon=True).start()

environment = {"HOME": home, "DISPLAY": ":9", "PATH": f"{home}/bin:/usr/bin:/bin"}

def login(*words):
    """Signs in, once more with the authorization server that massgen asks to add to the config."""
    command = [massgen, "mcp", "login", "t", "--config", "team.yaml", *words]
    done = subprocess.run(command, env=environment, stdin=subprocess.DEVNULL, text=True,
                          stderr=subprocess.PIPE)
    print(done.stderr, file=sys.stderr)
    if done.returncode != 0 and add_issuer(done.stderr):
        return login(*words)
    return done.returncode

def run():
    words = [massgen, "--config", "team.yaml", "--approval-socket", f"{home}/ask.sock", "task"]
    done = subprocess.run(words, env=environment, stdin=subprocess.DEVNULL, text=True,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    logs = subprocess.run(["sh", "-c", "cat .massgen/logs/*/events.jsonl .massgen/*/*/events.jsonl 2>/dev/null"],
                          text=True, stdout=subprocess.PIPE).stdout
    print(done.stdout, logs, sep="\n", file=sys.stderr)
    return done.returncode, done.stdout + logs

def lacking(said):
    """The options of the command that the run names: to sign in, or for more scopes; else none."""
    if "mcp login t" not in said:
        return None
    words = said.rsplit("mcp login t", 1)[1].split("`")[0].split()
    return words

def add_issuer(said):
    """Adds the authorization server that massgen asks to add to the config, and says whether it did."""
    found = re.search(r"add `issuer: ([^`]*)`", said)
    if found is None or "issuer" in oauth:
        return False
    oauth["issuer"] = found[1]
    write_config(calls)
    return True

def offered(name):
    """The schema with which massgen offers a tool of the server to an agent."""
    asked = [("initialize", {"protocolVersion": "2025-11-25", "capabilities": {},
                             "clientInfo": {"name": "c", "version": "1"}}), ("tools/list", {})]
    served = subprocess.Popen([massgen, "mcp", "serve", "--config", "team.yaml"], env=environment,
                              stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    for number, (method, params) in enumerate(asked):
        message = {"jsonrpc": "2.0", "id": number, "method": method, "params": params}
        served.stdin.write(json.dumps(message) + "\n")
        served.stdin.flush()
        answer = json.loads(served.stdout.readline())
        if number == 0:
            served.stdin.write('{"jsonrpc": "2.0", "method": "notifications/initialized"}\n')
    served.stdin.close()
    served.wait()
    return next(one["inputSchema"] for one in answer["result"]["tools"] if one["name"] == f"mcp__t__{name}")

if scenario == "json-schema-2020-12-preservation":
    write_config([tool("json_schema_echo", schema=offered("json_schema_2020_12_tool"))])
if scenario.startswith("auth/") and login() != 0:
    sys.exit(1)
code, said = run()
words = lacking(said)
if words is not None and login(*words) == 0:
    code, said = run()
sys.exit(code)
