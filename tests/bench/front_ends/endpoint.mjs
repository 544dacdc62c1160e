// A Chat Completions endpoint for measurements: each model of a run answers once, then votes for
// agent1, and presents what won. It streams a word every 40 ms, for every client.
//
//   node endpoint.mjs PORT

import { createServer } from 'node:http';

const WORD_MS = 40;
const ANSWER = 'The program reads standard input if no file is named, and prints a total for several files. '.repeat(4).trim();
/** The models that have answered since the last `POST /reset`. */
const answered = new Set();

/** Returns the text and the tool call of the next reply. */
function replyTo({ model, tools = [] }) {
  const offers = tools.map((tool) => tool.function?.name);
  if (offers.includes('new_answer') && !answered.has(model)) {
    answered.add(model);
    return { text: ANSWER, call: ['new_answer', { content: `${model}: ${ANSWER}` }] };
  }
  if (offers.includes('vote')) return { text: 'The first answer is complete.', call: ['vote', { agent_id: 'agent1', reason: 'It is complete.' }] };
  return { text: ANSWER };
}

createServer(async (request, response) => {
  const parts = [];
  for await (const part of request) parts.push(part);
  if (request.url === '/reset') {
    answered.clear();
    response.end();
    return;
  }
  if (!request.url.endsWith('/chat/completions')) {
    response.writeHead(404).end();
    return;
  }
  const body = JSON.parse(Buffer.concat(parts).toString());
  const { text, call } = replyTo(body);
  response.writeHead(200, { 'content-type': 'text/event-stream' });
  const send = (delta, finish_reason = null, more = {}) => response.write(`data: ${JSON.stringify({
    id: 'r', object: 'chat.completion.chunk', created: 0, model: body.model, choices: [{ index: 0, delta, finish_reason }], ...more })}\n\n`);
  send({ role: 'assistant', content: '' });
  for (const word of text.split(/(?<= )/)) {
    await new Promise((done) => setTimeout(done, WORD_MS));
    send({ content: word });
  }
  if (call) send({ tool_calls: [{ index: 0, id: `call_${Date.now()}`, type: 'function', function: { name: call[0], arguments: JSON.stringify(call[1]) } }] });
  send({}, call ? 'tool_calls' : 'stop', { usage: { prompt_tokens: 100, completion_tokens: 50, total_tokens: 150 } });
  response.end('data: [DONE]\n\n');
}).listen(Number(process.argv[2]), '127.0.0.1', () => console.log('listening'));
