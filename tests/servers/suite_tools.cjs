// A server on standard input and output with the tools that the conformance suite for servers calls.
// Its requests come from massgen, which offers the tools to the suite.
const readline = require("node:readline");

const PIXEL =
  "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mP8z8BQDwAEhQGAhKmMIQAAAABJRU5ErkJggg==";
const SOUND = "UklGRiYAAABXQVZFZm10IBAAAAABAAEAQB8AAAB9AAACABAAZGF0YQIAAAA=";
const EMPTY = { type: "object" };
const SCHEMA = {
  $schema: "https://json-schema.org/draft/2020-12/schema",
  type: "object",
  $defs: {
    address: {
      $anchor: "addressDef",
      type: "object",
      properties: { street: { type: "string" }, city: { type: "string" } },
    },
  },
  properties: {
    name: { type: "string" },
    address: { $ref: "#/$defs/address" },
    contactMethod: { type: "string", enum: ["phone", "email"] },
    phone: { type: "string" },
    email: { type: "string" },
  },
  allOf: [{ anyOf: [{ required: ["phone"] }, { required: ["email"] }] }],
  if: { properties: { contactMethod: { const: "phone" } }, required: ["contactMethod"] },
  then: { required: ["phone"] },
  else: { required: ["email"] },
  additionalProperties: false,
};
const HEADER_SCHEMA = {
  type: "object",
  properties: { region: { type: "string", "x-mcp-header": "Region" } },
  required: ["region"],
};

const text = (text) => ({ type: "text", text });
const resource = (uri, mimeType, text) => ({ type: "resource", resource: { uri, mimeType, text } });
const send = (message) => process.stdout.write(`${JSON.stringify({ jsonrpc: "2.0", ...message })}\n`);
const pause = () => new Promise((resolve) => setTimeout(resolve, 50));

const TOOLS = {
  test_simple_text: () => [text("This is a simple text response for testing.")],
  test_image_content: () => [{ type: "image", data: PIXEL, mimeType: "image/png" }],
  test_audio_content: () => [{ type: "audio", data: SOUND, mimeType: "audio/wav" }],
  test_embedded_resource: () => [
    resource("test://embedded-resource", "text/plain", "This is an embedded resource content."),
  ],
  test_multiple_content_types: () => [
    text("Multiple content types test:"),
    { type: "image", data: PIXEL, mimeType: "image/png" },
    resource("test://mixed-content-resource", "application/json", '{"test":"data","value":123}'),
  ],
  test_error_handling: () => {
    throw new Error("This tool intentionally returns an error for testing");
  },
  test_tool_with_progress: async (progressToken) => {
    for (const progress of [0, 50, 100]) {
      send({ method: "notifications/progress", params: { progressToken, progress, total: 100 } });
      await pause();
    }
    return [text("Tool with progress executed successfully")];
  },
  test_custom_header: () => [text("Custom header tool called")],
  json_schema_2020_12_tool: () => [text("JSON Schema 2020-12 tool called")],
};

async function call(name, meta) {
  try {
    return { content: await TOOLS[name](meta?.progressToken) };
  } catch (error) {
    return { content: [text(error.message)], isError: true };
  }
}

const SCHEMAS = { json_schema_2020_12_tool: SCHEMA, test_custom_header: HEADER_SCHEMA };
const tools = Object.keys(TOOLS).map((name) => ({
  name,
  description: name,
  inputSchema: SCHEMAS[name] ?? EMPTY,
}));

readline.createInterface({ input: process.stdin }).on("line", async (line) => {
  const { id, method, params } = JSON.parse(line);
  if (id === undefined) return;
  if (method === "initialize") {
    const { protocolVersion } = params;
    const serverInfo = { name: "suite-tools", version: "1.0.0" };
    send({ id, result: { protocolVersion, capabilities: { tools: {} }, serverInfo } });
  } else if (method === "tools/list") {
    send({ id, result: { tools } });
  } else if (method === "tools/call") {
    send({ id, result: await call(params.name, params._meta) });
  } else {
    send({ id, error: { code: -32601, message: "no such method" } });
  }
});
