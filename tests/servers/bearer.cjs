// Passes requests on to a server with the bearer token that a client without one lacks. Takes the URL,
// the token and, optionally, a prefix of the names of tools, which the client does not see; prints its
// own address once it listens.
const http = require("node:http");

const [url, token, prefix] = process.argv.slice(2);
const target = new URL(url);

// Adds the prefix to the tool that a request calls.
function prefixed(body, headers) {
  let message;
  try {
    message = JSON.parse(body);
  } catch {
    return body;
  }
  const name = message.params?.name;
  if (!prefix || message.method !== "tools/call" || typeof name !== "string") return body;
  if (headers["mcp-name"] === name) headers["mcp-name"] = prefix + name;
  message.params.name = prefix + name;
  return JSON.stringify(message);
}

const server = http.createServer((request, response) => {
  const chunks = [];
  request.on("data", (chunk) => chunks.push(chunk));
  request.on("end", () => {
    const headers = { ...request.headers, authorization: `Bearer ${token}` };
    const body = prefixed(Buffer.concat(chunks).toString(), headers);
    if (body !== "") headers["content-length"] = Buffer.byteLength(body);
    const onward = http.request(
      { host: target.hostname, port: target.port, path: request.url, method: request.method, headers },
      (answer) => {
        const told = { ...answer.headers };
        if (prefix) delete told["content-length"];
        response.writeHead(answer.statusCode, told);
        response.flushHeaders();
        if (!prefix) return answer.pipe(response);
        answer.on("data", (chunk) => response.write(chunk.toString().replaceAll(`"${prefix}`, '"')));
        answer.on("end", () => response.end());
      },
    );
    onward.on("error", () => response.destroy());
    response.on("close", () => onward.destroy());
    onward.end(body);
  });
});

server.listen(0, "127.0.0.1", () => {
  console.log(`http://localhost:${server.address().port}${target.pathname}`);
});
