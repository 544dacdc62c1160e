// Passes requests on to a server with the bearer token that a client without one lacks, and with
// everything else as it came. Takes the URL and the token; prints its own address once it listens.
const http = require("node:http");

const [url, token] = process.argv.slice(2);
const target = new URL(url);

const server = http.createServer((request, response) => {
  const headers = { ...request.headers, authorization: `Bearer ${token}` };
  const onward = http.request(
    { host: target.hostname, port: target.port, path: request.url, method: request.method, headers },
    (answer) => {
      response.writeHead(answer.statusCode, answer.headers);
      response.flushHeaders();
      answer.pipe(response);
    },
  );
  onward.on("error", () => response.destroy());
  response.on("close", () => onward.destroy());
  request.pipe(onward);
});

server.listen(0, "127.0.0.1", () => {
  console.log(`http://localhost:${server.address().port}${target.pathname}`);
});
