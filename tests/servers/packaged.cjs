#!/usr/bin/env node
// A server of the protocol without dependencies, which tests install as a package. Its tool `probe`
// returns its arguments, whether it can write beside itself, and whether it reaches the network.
const fs = require("node:fs");
const net = require("node:net");
const readline = require("node:readline");

const reply = (id, result) =>
  process.stdout.write(`${JSON.stringify({ jsonrpc: "2.0", id, result })}\n`);

function probe(id) {
  let writes = true;
  try {
    fs.writeFileSync(`${__dirname}/written`, "x");
  } catch {
    writes = false;
  }
  const answer = (network) => {
    const text = JSON.stringify({ version: "1.2.3", arguments: process.argv.slice(2), writes, network });
    reply(id, { content: [{ type: "text", text }] });
  };
  const socket = net.connect(9, "192.0.2.1");
  socket.on("error", () => answer(false));
  socket.on("connect", () => answer(true));
}

readline.createInterface({ input: process.stdin }).on("line", (line) => {
  const { id, method, params } = JSON.parse(line);
  if (method === "initialize") {
    reply(id, {
      protocolVersion: params.protocolVersion,
      capabilities: { tools: {} },
      serverInfo: { name: "packaged", version: "1.2.3" },
    });
  } else if (method === "tools/list") {
    reply(id, { tools: [{ name: "probe", inputSchema: { type: "object" } }] });
  } else if (method === "tools/call") {
    probe(id);
  } else if (id !== undefined) {
    const error = { code: -32601, message: "no such method" };
    process.stdout.write(`${JSON.stringify({ jsonrpc: "2.0", id, error })}\n`);
  }
});
