// Drives the published modules over a network that loses, repeats and cuts.
// Usage: node unreliable.mjs URL TOKEN MODULES. Prints one JSON object: what each scenario observed.
import http from "node:http";
const [url, token, modules] = process.argv.slice(2);
// The modules' clock runs faster where they wait for a heartbeat or for another attempt.
const timeout = globalThis.setTimeout, interval = globalThis.setInterval;
const faster = (ms) => (ms >= 1_000 && ms < 40_000 ? ms / 40 : ms);
globalThis.setTimeout = (call, ms, ...more) => timeout(call, faster(ms), ...more);
globalThis.setInterval = (call, ms, ...more) => interval(call, faster(ms), ...more);
const bridge = await import(`${modules}/bridge.mjs`);
const browser = await import(`${modules}/browser-sdk.js`);
console.debug = console.warn = () => {};
const seen = {};
const uuid = () => crypto.randomUUID();
const sleep = (ms) => new Promise((resolve) => timeout(resolve, ms));
const until = async (holds) => { while (!(await holds())) await sleep(20); };

// A proxy. `faults` says what happens to the next requests of which a word is in the path.
const faults = [], counts = {}, streams = new Set();
const proxy = http.createServer(async (request, response) => {
  const pieces = [];
  for await (const piece of request) pieces.push(piece);
  const body = Buffer.concat(pieces);
  for (const word of ["heartbeat", "stream", "delivery", "events"])
    if (request.url.includes(word)) { counts[word] = (counts[word] ?? 0) + 1; break; }
  const at = faults.findIndex((fault) => request.method === (fault.method ?? "POST") && fault.path.test(request.url) && fault.times > 0);
  const fault = faults[at];
  if (fault && --fault.times === 0) faults.splice(at, 1);
  if (fault?.kind === "refused") return response.writeHead(fault.status).end("{}");
  const forward = () => new Promise((resolve) => {
    const options = { method: request.method, headers: { ...request.headers, host: new URL(url).host, "content-length": body.length } };
    const asked = http.request(new URL(request.url, url), options, resolve);
    asked.on("error", () => response.destroy());
    asked.end(body);
  });
  let answer = await forward();
  if (fault?.kind === "repeated") { answer.resume(); answer = await forward(); }
  if (fault?.kind === "lost") { answer.resume(); return response.destroy(); }
  response.writeHead(answer.statusCode, answer.headers);
  answer.pipe(response);
  if (request.url.includes("stream")) {
    const cut = () => { response.destroy(); answer.destroy(); };
    streams.add(cut);
    response.on("close", () => { streams.delete(cut); answer.destroy(); });
  }
});
await new Promise((resolve) => proxy.listen(0, "127.0.0.1", resolve));
const via = `http://127.0.0.1:${proxy.address().port}`;
const cutStreams = () => [...streams].forEach((cut) => cut());

const said = (text) => ({
  type: "assistant", uuid: uuid(), parent_tool_use_id: null,
  message: { role: "assistant", content: [{ type: "text", text }] },
});
const user = (text) => ({
  type: "user", uuid: uuid(), message: { role: "user", content: text }, parent_tool_use_id: null,
});
const ask = (id) => ({
  type: "control_request", request_id: id,
  request: { subtype: "can_use_tool", tool_name: "Bash", input: { command: id }, tool_use_id: id },
});
const texts = (m) => m.message?.content?.[0]?.text ?? m.message?.content;
async function attach(session, hooks = {}, more = {}, bearer = token) {
  const given = await bridge.fetchRemoteCredentials(session, url, bearer, 9000);
  return bridge.attachBridgeSession({
    sessionId: session, ingressToken: given.worker_jwt, apiBaseUrl: via, epoch: given.worker_epoch, ...more,
    onInboundMessage: (m) => hooks.message?.(m), onPermissionResponse: (r) => hooks.answer?.(r),
    onClose: (code) => hooks.closed?.(code),
  });
}
function watch(session, { prompts = [], bearer = token, canUseTool } = {}) {
  const base = `${via}/v1/code/sessions/${session}`;
  const waiting = [...prompts];
  let next;
  async function* prompt() {
    for (;;) {
      while (waiting.length) yield waiting.shift();
      await new Promise((resolve) => (next = resolve));
    }
  }
  const viewer = { got: [], say: (m) => { waiting.push(m); next?.(); } };
  const q = browser.query({
    prompt: prompt(), canUseTool,
    sse: { streamUrl: `${base}/events/stream`, sendUrl: `${base}/events`, sessionId: session, headers: { Authorization: `Bearer ${bearer}` } },
  });
  viewer.ended = (async () => { for await (const m of q) viewer.got.push(texts(m)); })().catch((error) => error.code ?? error.message);
  return viewer;
}
const create = (title, bearer = token) => bridge.createCodeSession(url, bearer, title, 9000);
const count = (list, text) => list.filter((one) => one === text).length;

{
  const session = await create("unreliable");
  const inbound = [], answers = [];
  const handle = await attach(session, { message: (m) => inbound.push(texts(m)), answer: (r) => answers.push(r.response.response.behavior) });
  // It never answers; without the function, the module answers questions with an error.
  const viewer = watch(session, { canUseTool: () => new Promise(() => {}) });
  const write = async (text) => { handle.write(said(text)); await until(() => viewer.got.includes(text)); };
  await write("begun");
  // 33: an upload whose response is lost is stored once
  faults.push({ kind: "lost", path: /worker\/events$/, times: 1 });
  await write("lost");
  // 34: an upload that arrives twice is stored once
  faults.push({ kind: "repeated", path: /worker\/events$/, times: 1 });
  await write("repeated");
  // 35: uploads that are refused for a time arrive in order
  faults.push({ kind: "refused", status: 503, path: /worker\/events$/, times: 3 });
  handle.write(said("first")); handle.write(said("second"));
  await write("third");
  // 36: a viewer whose stream is cut misses nothing and sees nothing twice
  cutStreams();
  await write("after the cut");
  // 37: a viewer whose stream is refused for a time
  faults.push({ kind: "refused", status: 503, method: "GET", path: /stream/, times: 2 });
  cutStreams();
  await write("after the refusal");
  seen.got = viewer.got.filter((text) => text !== undefined);
  // 38: a prompt that arrives twice, or whose sender's stream is cut, is passed on once
  faults.push({ kind: "repeated", path: /[^r]\/events$/, times: 1 });
  viewer.say(user("twice"));
  await until(() => inbound.includes("twice"));
  cutStreams();
  viewer.say(user("in the gap"));
  await until(() => inbound.includes("in the gap"));
  seen.inbound = inbound;
  // 39: of two answers to a question, the first takes effect
  let asked = 0;
  const yes = () => (asked++, { behavior: "allow", updatedInput: {} });
  for (let n = 0; n < 2; n++) watch(session, { canUseTool: async () => yes() });
  await sleep(100);
  handle.sendControlRequest(ask("q1"));
  await until(() => answers.length && asked);
  await write("answered");
  seen.answers = answers;
  // 40: a cut connection does not repeat an answered question
  const before = asked;
  cutStreams();
  await write("not asked again");
  seen.askedAgain = asked !== before;
  // 41: many messages arrive in order
  for (let n = 0; n < 300; n++) handle.write(said(`n${n}`));
  await until(() => viewer.got.includes("n299"));
  const numbers = viewer.got.filter((text) => /^n\d/.test(text));
  seen.many = [numbers.length, numbers.every((text, n) => text === `n${n}`)];
  // 42: heartbeats
  await until(() => counts.heartbeat > 1);
  seen.beats = true;
  handle.close();
}
// 43-44: a revoked device loses its worker and its viewer
{
  const session = await create("revoked", "phone");
  let code;
  const handle = await attach(session, { closed: (value) => (code = value) }, {}, "phone");
  const viewer = watch(session, { bearer: "phone" });
  handle.write(said("there"));
  await until(() => viewer.got.includes("there"));
  await fetch(`${url}/v1/devices/phone`, { method: "DELETE", headers: { Authorization: `Bearer ${token}` } });
  await until(() => code);
  seen.revokedWorker = code;
  seen.revokedViewer = await viewer.ended;
  // 45: what a lost worker wrote follows with new credentials
  handle.write(said("after all"));
  const fresh = await bridge.fetchRemoteCredentials(session, url, token, 9000);
  await handle.reconnectTransport({ ingressToken: fresh.worker_jwt, apiBaseUrl: via, epoch: fresh.worker_epoch });
  const again = watch(session);
  await until(() => again.got.includes("after all"));
  seen.afterAll = count(again.got, "after all");
  handle.close();
}
// 46: a token whose epoch is not the worker's begins no worker
{
  const session = await create("epoch");
  let code;
  const handle = await attach(session, { closed: (value) => (code = value) }, { epoch: 99 }).catch(() => null);
  if (handle) await until(() => code);
  seen.wrongEpoch = handle ? code : "refused";
}
// 47: a worker that can't register ends, and keeps what it wrote for the next transport
{
  const session = await create("unregistered");
  const codes = [];
  faults.push({ kind: "refused", status: 503, method: "PUT", path: /worker$/, times: 99 });
  const handle = await attach(session, { closed: (value) => codes.push(value) });
  handle.write(said("kept"));
  await until(() => codes.length);
  seen.unregistered = codes[0];
  const recover = async () => {
    faults.length = 0;
    const fresh = await bridge.fetchRemoteCredentials(session, url, token, 9000);
    await handle.reconnectTransport({ ingressToken: fresh.worker_jwt, apiBaseUrl: via, epoch: fresh.worker_epoch });
  };
  await recover();
  const viewer = watch(session);
  await until(() => viewer.got.includes("kept"));
  // 48: a worker whose token is no longer accepted ends, and goes on with a new one
  faults.push({ kind: "refused", status: 401, path: /worker\//, times: 999 });
  handle.write(said("with a new token"));
  await until(() => codes.length > 1);
  seen.expired = codes[1];
  await recover();
  await until(() => viewer.got.includes("with a new token"));
  seen.once = ["kept", "with a new token"].map((text) => count(viewer.got, text));
  handle.close();
}
process.stdout.write(JSON.stringify(seen) + "\n");
process.exit(0);
