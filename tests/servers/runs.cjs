// A client by the TypeScript SDK of the protocol that takes steps, one after another. Takes a file of
// JSON: {command, args} or {url, token}, and `steps`. A step is {tool, with}, and may have
// `cancelAfter`: milliseconds after which it is cancelled, and `stay`: the client says `staying` once it
// is under way, and waits for its end. `$run` in `with` is the run that the last step named.
// Prints one JSON object: the names of the tools, and of each step its result, or its error, and the
// progress that was told.
const { readFileSync } = require("node:fs");
const { Client } = require("@modelcontextprotocol/sdk/client/index.js");
const { StdioClientTransport } = require("@modelcontextprotocol/sdk/client/stdio.js");
const { StreamableHTTPClientTransport } = require("@modelcontextprotocol/sdk/client/streamableHttp.js");

async function take(client, step, run) {
  const progress = [];
  const given = JSON.parse(JSON.stringify(step.with ?? {}).replaceAll("$run", run));
  const broken = new AbortController();
  if (step.cancelAfter) setTimeout(() => broken.abort("enough"), step.cancelAfter);
  if (step.stay) setTimeout(() => console.log("staying"), step.stay);
  try {
    const result = await client.callTool({ name: step.tool, arguments: given }, undefined, {
      signal: broken.signal,
      onprogress: ({ message }) => progress.push(message),
    });
    return { result, progress };
  } catch (error) {
    return { error: String(error), progress };
  }
}

async function main() {
  const { command, args, url, token, steps } = JSON.parse(readFileSync(process.argv[2], "utf8"));
  const transport = command
    ? new StdioClientTransport({ command, args })
    : new StreamableHTTPClientTransport(new URL(url), {
        requestInit: { headers: { authorization: `Bearer ${token}` } },
      });
  const client = new Client({ name: "another-project", version: "1.0.0" });
  await client.connect(transport);
  const { tools } = await client.listTools();
  const taken = [];
  let run = "";
  for (const step of steps) {
    taken.push(await take(client, step, run));
    run = taken.at(-1).result?.structuredContent?.run ?? run;
  }
  await client.close();
  console.log(JSON.stringify({ tools: tools.map((tool) => tool.name), taken }));
}

main().catch((error) => {
  console.error(error);
  process.exit(1);
});
