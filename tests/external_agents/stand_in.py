#!/usr/bin/env python3
"""Stands in for an agent that is a program: speaks the Agent Client Protocol or Claude Code's stream
of JSON, and does in each turn what a table says, with its own hands or over the relay.

    stand_in.py acp|claude|codex TABLE [ARGUMENTS OF THE REAL PROGRAM]

TABLE is JSON: a list of {"when": TEXT, "do": [[STEP, ARGUMENT...]...]}. The first entry whose text
is in the prompt counts, and "" is in every prompt. What came of each step is said as text."""

import concurrent.futures
import json
import os
import subprocess
import sys
import time

TONGUE, TABLE, ARGUMENTS = sys.argv[1], sys.argv[2], sys.argv[3:]


def out(message):
    sys.stdout.write(json.dumps(message) + "\n")
    sys.stdout.flush()


class Relay:
    """A client of the server that passes on to the run."""

    def __init__(self, command):
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.count = 0
        self.ask("initialize", {
            "protocolVersion": "2025-06-18", "capabilities": {},
            "clientInfo": {"name": "stand-in", "version": "1"},
        })
        self.tell({"jsonrpc": "2.0", "method": "notifications/initialized"})

    def tell(self, message):
        self.process.stdin.write(json.dumps(message) + "\n")
        self.process.stdin.flush()

    def ask(self, method, params):
        self.count += 1
        self.tell({"jsonrpc": "2.0", "id": self.count, "method": method, "params": params})
        while True:
            line = self.process.stdout.readline()
            if not line:
                return {"error": {"message": "the relay is gone"}}
            answer = json.loads(line)
            if answer.get("id") == self.count:
                return answer

    def call(self, tool, arguments):
        answer = self.ask("tools/call", {"name": tool, "arguments": arguments})
        if "error" in answer:
            return "error: " + answer["error"]["message"]
        text, *images = answer["result"]["content"]
        return " ".join([text["text"], *(f"<{i['mimeType']} {i['data'][:9]}>" for i in images)])

    def tools(self):
        return " ".join(tool["name"] for tool in self.ask("tools/list", {})["result"]["tools"])


class Acp:
    def __init__(self):
        self.relay_command = None
        self.session = "s1"
        self.count = 100
        self.fails = False

    def say(self, text):
        self.update({"sessionUpdate": "agent_message_chunk", "content": {"type": "text", "text": text}})

    def update(self, update):
        out({"jsonrpc": "2.0", "method": "session/update", "params": {"sessionId": self.session, "update": update}})

    def ask(self, method, params):
        self.count += 1
        out({"jsonrpc": "2.0", "id": self.count, "method": method, "params": {"sessionId": self.session, **params}})
        while True:
            answer = json.loads(sys.stdin.readline())
            if answer.get("id") == self.count and "method" not in answer:
                return answer

    def announced_permission(self, kind, given, asked):
        """Announces a call, and asks for the permission with the rest."""
        self.count += 1
        ident = "c%d" % self.count
        self.update({"sessionUpdate": "tool_call", "toolCallId": ident, "kind": kind, "title": "t",
                     "rawInput": given})
        return self.request_permission({"toolCallId": ident, **asked})

    def permission(self, kind, detail):
        call = {"toolCallId": "c1", "kind": kind, "title": str(detail)}
        if kind == "execute":
            call["rawInput"] = {"command": detail}
        elif detail is not None:
            call["locations"] = [{"path": detail}]
        return self.request_permission(call)

    def request_permission(self, call):
        options = [
            {"optionId": "yes", "name": "Yes", "kind": "allow_once"},
            {"optionId": "no", "name": "No", "kind": "reject_once"},
        ]
        answer = self.ask("session/request_permission", {"toolCall": call, "options": options})
        return answer["result"]["outcome"].get("optionId", "cancelled")

    def asked_to_end(self, message):
        return message.get("method") == "session/cancel"

    def permission_until_cancel(self, kind, detail, path):
        """Asks for a permission and notes what comes until there is an answer."""
        self.count += 1
        call = {"toolCallId": "c1", "kind": kind, "title": detail, "rawInput": {"command": detail}}
        options = [{"optionId": "yes", "name": "Yes", "kind": "allow_once"}]
        out({"jsonrpc": "2.0", "id": self.count, "method": "session/request_permission",
             "params": {"sessionId": self.session, "toolCall": call, "options": options}})
        came = []
        while True:
            message = json.loads(sys.stdin.readline())
            came.append(message.get("method") or message["result"]["outcome"]["outcome"])
            if "method" not in message:
                return write(path, " ".join(came))

    def own(self, tool, detail, update="tool_call", status="pending"):
        self.count += 1
        self.update({"sessionUpdate": update, "toolCallId": "t%d" % self.count, "title": detail,
                     "kind": tool, "status": status})

    def file(self, method, params):
        answer = self.ask(method, params)
        return answer["error"]["message"] if "error" in answer else json.dumps(answer["result"])

    def turns(self):
        for line in sys.stdin:
            message = json.loads(line)
            method, ident = message.get("method"), message.get("id")
            if method == "initialize":
                out({"jsonrpc": "2.0", "id": ident, "result": {"protocolVersion": 1, "agentCapabilities": {}}})
            elif method == "session/new":
                server = message["params"]["mcpServers"][0]
                self.relay_command = [server["command"], *server["args"]]
                out({"jsonrpc": "2.0", "id": ident, "result": {"sessionId": self.session}})
            elif method == "session/prompt":
                yield message["params"]["prompt"][0]["text"]
                if self.fails:
                    self.fails = False
                    out({"jsonrpc": "2.0", "id": ident, "error": {"code": 1, "message": "out of order"}})
                    continue
                usage = {} if "silent" in ARGUMENTS else {"usage": {"inputTokens": 11, "outputTokens": 3}}
                out({"jsonrpc": "2.0", "id": ident, "result": {"stopReason": "end_turn", **usage}})


class Claude:
    def __init__(self):
        server = json.loads(self.argument("--mcp-config"))["mcpServers"]["massgen"]
        self.relay_command = [server["command"], *server["args"]]
        self.settings = json.loads(self.argument("--settings"))

    def argument(self, name):
        return ARGUMENTS[ARGUMENTS.index(name) + 1]

    def say(self, text):
        self.assistant({"type": "text", "text": text})

    def assistant(self, block):
        out({"type": "assistant", "message": {"role": "assistant", "content": [block]}, "parent_tool_use_id": None})

    def own(self, tool, detail):
        self.assistant({"type": "tool_use", "id": "t1", "name": tool, "input": {"file_path": detail}})

    def hook(self, tool, given):
        hook = self.settings["hooks"]["PreToolUse"][0]["hooks"][0]["command"]
        request = {"session_id": "s", "cwd": os.getcwd(), "hook_event_name": "PreToolUse",
                   "tool_name": tool, "tool_input": given, "tool_use_id": "t"}
        done = subprocess.run(["sh", "-c", hook], input=json.dumps(request), capture_output=True, text=True)
        if done.returncode:
            return "status %d %s" % (done.returncode, done.stderr.strip())
        return json.loads(done.stdout)["hookSpecificOutput"]["permissionDecision"]

    def asked_to_end(self, message):
        return message.get("request", {}).get("subtype") == "interrupt"

    def turns(self):
        for line in sys.stdin:
            yield json.loads(line)["message"]["content"]
            out({"type": "result", "subtype": "success", "is_error": False, "result": "x",
                 "usage": {"input_tokens": 5, "cache_read_input_tokens": 6, "output_tokens": 3},
                 "total_cost_usd": 0.25})


class Codex(Claude):
    thread = os.path.expanduser("~/thread.json")

    def __init__(self):
        given = [word.split("=", 1) for word in ARGUMENTS if word.startswith("mcp_servers.massgen.")]
        given = {name.rsplit(".", 1)[1]: json.loads(value) for name, value in given}
        self.relay_command = [given["command"], *given["args"]]
        self.resumed = "resume" in ARGUMENTS

    def say(self, text):
        out({"type": "item.completed", "item": {"id": "i", "type": "agent_message", "text": text}})

    def own(self, tool, detail):
        out({"type": "item.started", "item": {"id": "i", "type": "command_execution", "command": detail}})

    def turns(self):
        out({"type": "thread.started", "thread_id": "th1"})
        out({"type": "turn.started"})
        yield sys.stdin.read()
        # It counts its thread as a whole.
        turns = int(read(self.thread)) + 1 if self.resumed else 1
        write(self.thread, str(turns))
        usage = {"input_tokens": 9, "cached_input_tokens": 4, "output_tokens": 2}
        out({"type": "turn.completed", "usage": {name: count * turns for name, count in usage.items()}})


def attempt(work):
    try:
        return "ok " + str(work() or "")
    except Exception as error:
        return "failed " + str(error)


def write(path, text):
    os.makedirs(os.path.dirname(path) or ".", exist_ok=True)
    with open(path, "w") as file:
        file.write(text)


def read(path):
    with open(path) as file:
        return file.read().strip()


def step(speaker, relays, name, given):
    if name in ("call", "tools"):
        if not relays:
            relays.append(Relay(speaker.relay_command))
        return relays[0].tools() if name == "tools" else relays[0].call(*given)
    if name == "say":
        return given[0]
    if name == "env":
        return os.environ.get(given[0], "none")
    if name == "list":
        return attempt(lambda: " ".join(sorted(os.listdir(given[0]))))
    if name == "until_asked_to_end":
        for line in sys.stdin:
            if speaker.asked_to_end(json.loads(line)):
                write(given[0] + ".asked", "")
                time.sleep(given[1])
                return write(given[0], "asked")
        return time.sleep(60)
    if name == "permission_until_cancel":
        return speaker.permission_until_cancel(*given)
    if name == "sleep":
        return time.sleep(given[0]) or "slept"
    if name == "die":
        sys.stderr.write("out of luck\n")
        sys.stderr.flush()
        os._exit(given[0])
    if name == "die_once":
        if os.path.exists(given[0]):
            return "went on"
        write(given[0], "")
        return step(speaker, relays, "die", [7])
    if name == "append":
        with open(given[0], "a") as file:
            file.write(given[1] + " ")
        return "ok"
    if name == "goes_on_the_second_time":
        if os.path.exists(given[0]):
            return "went on"
        write(given[0], "")
        return time.sleep(60)
    if name == "fail_once":
        speaker.fails = not os.path.exists(given[0])
        write(given[0], "")
        return "fails" if speaker.fails else "goes on"
    if name == "flood":
        sys.stdout.write("x" * given[0])
        return "flooded"
    if name == "shell":
        done = subprocess.run(["sh", "-c", given[0]], capture_output=True, text=True)
        return "status %d %s" % (done.returncode, (done.stdout + done.stderr).strip())
    if name == "spoil_socket":
        socket = speaker.relay_command[-1]
        return attempt(lambda: os.rename(socket, socket + ".old"))
    if name == "own":
        return speaker.own(*given) or "used"
    if name == "write":
        return attempt(lambda: write(*given))
    if name == "read":
        return attempt(lambda: read(given[0]))
    if name == "permission":
        return speaker.permission(*given)
    if name == "announced_permission":
        return speaker.announced_permission(*given)
    if name == "hook":
        return speaker.hook(*given)
    if name == "long_questions":
        content = "x" * given[0]
        ask = lambda _: speaker.hook("Write", {"file_path": "a.txt", "content": content})
        with concurrent.futures.ThreadPoolExecutor(given[1]) as asking:
            return " ".join(sorted(set(asking.map(ask, range(given[1])))))
    if name == "fs_read":
        return speaker.file("fs/read_text_file", {"path": given[0]})
    if name == "fs_write":
        return speaker.file("fs/write_text_file", {"path": given[0], "content": given[1]})
    raise ValueError(name)


def main():
    with open(TABLE) as file:
        table = json.load(file)
    speaker = {"acp": Acp, "claude": Claude, "codex": Codex}[TONGUE]()
    relays = []
    for prompt in speaker.turns():
        entry = next((entry for entry in table if entry["when"] in prompt), {"do": []})
        for name, *given in entry["do"]:
            came = str(step(speaker, relays, name, given)).replace("\n", " | ")
            speaker.say("%s: %s\n" % (name, came))


main()
