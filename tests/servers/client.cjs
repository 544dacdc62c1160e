// A client by the TypeScript SDK of the protocol: lists the tools of a server and makes calls.
// Takes one JSON argument, {command, args} or {url, token}, and `calls`: [[tool, arguments], …].
// Prints one JSON object: the names of the tools and what each call answered.
const { Client } = require("@modelcontextprotocol/sdk/client/index.js");
const { StdioClientTransport } = require("@modelcontextprotocol/sdk/client/stdio.js");
const { StreamableHTTPClientTransport } = require("@modelcontextprotocol/sdk/client/streamableHttp.js");

async function main() {
  const { command, args, url, token, calls } = JSON.parse(process.argv[2]);
  const transport = command
    ? new StdioClientTransport({ command, args })
    : new StreamableHTTPClientTransport(new URL(url), {
        requestInit: { headers: { authorization: `Bearer ${token}` } },
      });
  const client = new Client({ name: "another-project", version: "1.0.0" });
  await client.connect(transport);
  const { tools } = await client.listTools();
  const results = [];
  for (const [name, given] of calls) {
    results.push(await client.callTool({ name, arguments: given }));
  }
  await client.close();
  console.log(JSON.stringify({ tools: tools.map((tool) => tool.name), results }));
}

main().catch((error) => {
  console.error(error);
  process.exit(1);
});
