// Drives the published modules against a server. Usage: node published.mjs URL TOKEN MODULES
// Prints one JSON object: what each scenario observed.
const [url, token, modules] = process.argv.slice(2);
const bridge = await import(`${modules}/bridge.mjs`);
const browser = await import(`${modules}/browser-sdk.js`);
console.debug = console.warn = () => {};
const seen = {};
const uuid = () => crypto.randomUUID();
const deferred = () => {
  let resolve;
  const promise = new Promise((r) => (resolve = r));
  return { promise, resolve };
};
const user = (text) => ({
  type: "user", uuid: uuid(), message: { role: "user", content: text }, parent_tool_use_id: null,
});
const said = (text) => ({
  type: "assistant", uuid: uuid(), parent_tool_use_id: null,
  message: { role: "assistant", content: [{ type: "text", text }] },
});
const result = (text) => ({
  type: "result", subtype: "success", uuid: uuid(), result: text, is_error: false, num_turns: 1,
  duration_ms: 1, duration_api_ms: 1, total_cost_usd: 0, usage: {}, permission_denials: [],
});
const ask = (id) => ({
  type: "control_request", request_id: id,
  request: { subtype: "can_use_tool", tool_name: "Bash", input: { command: id }, tool_use_id: id },
});
async function attach(session, hooks = {}, more = {}) {
  const given = await bridge.fetchRemoteCredentials(session, url, token, 9000);
  const handle = await bridge.attachBridgeSession({
    sessionId: session, ingressToken: given.worker_jwt, apiBaseUrl: given.api_base_url,
    epoch: given.worker_epoch, ...more,
    onInboundMessage: (m) => hooks.message?.(handle, m),
    onPermissionResponse: (r) => hooks.answer?.(handle, r),
    onInterrupt: () => hooks.interrupt?.(),
    onSetModel: (m) => (hooks.model?.(m), { ok: true }),
    onSetPermissionMode: (mode) => hooks.mode?.(mode) ?? { ok: true },
    onSetMaxThinkingTokens: (n) => (hooks.thinking?.(n), { ok: true }),
    onClose: (code) => hooks.closed?.(code),
  });
  return { handle, given };
}
function view(session, prompt, more = {}, sse = {}) {
  const base = `${url}/v1/code/sessions/${session}`;
  return browser.query({
    prompt, ...more,
    sse: { streamUrl: `${base}/events/stream`, sendUrl: `${base}/events`, sessionId: session,
           headers: { Authorization: `Bearer ${sse.token ?? token}` }, ...sse },
  });
}
async function* once(...prompts) { yield* prompts; await new Promise(() => {}); }
const texts = (m) => m.message?.content?.[0]?.text ?? m.message?.content;

// 1-4: a prompt, an answer, a permission question, delivery states
{
  const session = await bridge.createCodeSession(url, token, "one", 9000);
  seen.session = session;
  const inbound = [], answers = [], delivered = [], viewed = [];
  const { handle } = await attach(session, {
    message: (h, m) => { inbound.push(texts(m)); h.write(said("hi")); h.sendControlRequest(ask("q1")); },
    answer: (h, r) => { answers.push(r.response.response.behavior); h.write(result("done")); },
  });
  const asked = [];
  const q = view(session, once(user("hello")), {
    canUseTool: async (name, input) => (asked.push([name, input]), { behavior: "allow", updatedInput: input }),
  }, { onDeliveryUpdate: (u) => delivered.push(u.status) });
  for await (const m of q) { viewed.push(m.type); if (m.type === "result") break; }
  Object.assign(seen, { inbound, answers, asked, viewed, drops: browser.getSseDropCounts(q) });
  seen.delivered = [...new Set(delivered)];
  // 5: a viewer that joins later sees all of it and is not asked again
  const late = [], lateAsked = [];
  for await (const m of view(session, once(), { canUseTool: async (n) => (lateAsked.push(n), { behavior: "deny", message: "" }) })) {
    late.push(m.type);
    if (m.type === "result") break;
  }
  seen.late = late; seen.lateAsked = lateAsked;
  // 6: a viewer with a cursor gets only what came after
  const cursor = browser.getSseLastSequenceNum(q);
  handle.write(said("after")); await handle.flush();
  for await (const m of view(session, once(), {}, { fromSequenceNum: cursor })) { seen.after = texts(m); break; }
  // 7: the sequence number of the worker's stream
  seen.sequence = handle.getSequenceNum() > 0;
  // 8: a second worker replaces the first
  const closed = deferred();
  const two = await attach(session, { closed: (code) => closed.resolve(code) });
  seen.epochs = [handle.getEpoch(), two.handle.getEpoch()];
  const three = await attach(session, { message: (h, m) => h.write(said(`from three: ${texts(m)}`)) },
                             { initialSequenceNum: two.handle.getSequenceNum() });
  two.handle.write(said("too late"));
  seen.superseded = await closed.promise;
  // 9: what the replaced worker wrote is not stored
  const all = [];
  three.handle.write(result("end")); await three.handle.flush();
  let results = 0;
  for await (const m of view(session, once())) { all.push(texts(m)); if (m.type === "result" && ++results === 2) break; }
  seen.tooLate = all.includes("too late");
  handle.close(); two.handle.close(); three.handle.close();
}
// 10-12: interrupt, set_model, and two viewers of which one answers
{
  const session = await bridge.createCodeSession(url, token, "two", 9000);
  const interrupted = deferred(), model = deferred(), answered = deferred();
  const { handle } = await attach(session, {
    interrupt: () => interrupted.resolve(true), model: (m) => model.resolve(m),
    answer: (h, r) => answered.resolve(r.response.response.message),
    message: () => {},
  });
  const asked = deferred();
  const first = view(session, once(user("go")), { canUseTool: () => (asked.resolve(), new Promise(() => {})) });
  const second = view(session, once(), { canUseTool: async () => ({ behavior: "deny", message: "second" }) });
  (async () => { for await (const _ of first); })().catch(() => {});
  (async () => { for await (const _ of second); })().catch(() => {});
  handle.sendControlRequest(ask("q2"));
  await asked.promise;
  seen.answeredBy = await answered.promise;
  first.interrupt().catch(() => {}); seen.interrupted = await interrupted.promise;
  second.setModel("opus").catch(() => {}); seen.model = await model.promise;
  // 13: state and metadata
  handle.reportState("running"); handle.reportMetadata({ branch: "main" }); await handle.flush();
  const show = async () => (await (await fetch(`${url}/v1/code/sessions/${session}`, { headers: { Authorization: `Bearer ${token}` } })).json()).session;
  let shown = await show();
  while (shown.worker_status !== "running" || !shown.external_metadata.branch) shown = await show();
  seen.shown = [shown.worker_status, shown.external_metadata.branch, shown.connection_status];
  // 14: a new token for the same session, with what was written meanwhile
  const fresh = await bridge.fetchRemoteCredentials(session, url, token, 9000);
  handle.write(said("carried"));
  await handle.reconnectTransport({ ingressToken: fresh.worker_jwt, apiBaseUrl: url, epoch: fresh.worker_epoch });
  await handle.flush();
  for await (const m of view(session, once())) { if (texts(m) === "carried") { seen.carried = true; break; } }
  handle.close();
}
// 15: a worker that only writes
{
  const session = await bridge.createCodeSession(url, token, "mirror", 9000);
  const { handle } = await attach(session, {}, { outboundOnly: true });
  handle.write(said("mirrored")); await handle.flush();
  for await (const m of view(session, once())) { seen.mirrored = texts(m); break; }
  handle.close();
}
// 16-20: refusals, as the modules classify them
seen.noToken = await bridge.createCodeSession(url, "wrong", "x", 9000);
seen.noBridge = await bridge.fetchRemoteCredentials(seen.session, url, "wrong", 9000);
seen.noSession = await bridge.fetchRemoteCredentials("cse_00000000000000000000000000000000", url, token, 9000);
seen.badName = await bridge.fetchRemoteCredentials("../x", url, token, 9000);
try { for await (const _ of view(seen.session, once(), {}, { token: "wrong" })); } catch (e) { seen.viewer = e.code; }
// 21: a worker without an epoch registers itself
{
  const session = await bridge.createCodeSession(url, token, "register", 9000);
  const given = await bridge.fetchRemoteCredentials(session, url, token, 9000);
  const handle = await bridge.attachBridgeSession({
    sessionId: session, ingressToken: given.worker_jwt, apiBaseUrl: given.api_base_url,
  });
  handle.write(said("registered")); await handle.flush();
  seen.registered = [given.worker_epoch, handle.getEpoch()];
  for await (const m of view(session, once())) { seen.registeredSaid = texts(m); break; }
  handle.close();
}
// 22-29: one session, many kinds of messages
{
  const session = await bridge.createCodeSession(url, token, "kinds", 9000);
  const modes = [], thinking = [], inbound = [];
  const { handle } = await attach(session, {
    mode: (mode) => (modes.push(mode), mode === "plan" ? { ok: true } : { ok: false, error: "not from afar" }),
    thinking: (n) => thinking.push(n),
    message: (h, m) => { inbound.push(texts(m)); },
  });
  // 22: a refused change of the mode is an error for the viewer, an allowed one is not
  const q = view(session, once());
  const got = [], envelopes = [], waiters = [];
  const until = (holds) => new Promise((resolve) => {
    const look = () => holds() && resolve();
    waiters.push(look); look();
  });
  (async () => {
    for await (const m of q) {
      got.push(m); envelopes.push(browser.getCcrEvent(q, m)); waiters.forEach((look) => look());
    }
  })().catch(() => {});
  seen.laxer = await q.setPermissionMode("bypassPermissions").then(() => "done", (e) => e.message);
  await q.setPermissionMode("plan"); seen.modes = modes;
  // 23: thinking
  await q.setMaxThinkingTokens(1000); seen.thinking = thinking;
  // 24: growing answers are seen live, and not by who comes later
  const delta = { type: "stream_event", uuid: uuid(), parent_tool_use_id: null,
    event: { type: "content_block_delta", index: 0, delta: { type: "text_delta", text: "gr" } } };
  while (!got.some((m) => m.type === "stream_event")) {
    handle.write({ ...delta, uuid: uuid() }); await handle.flush();
    await new Promise((r) => setTimeout(r, 50));
  }
  seen.live = true;
  // 25: envelopes: an ID, a number, a source
  handle.write(said("numbered")); await handle.flush();
  await until(() => got.some((m) => texts(m) === "numbered"));
  const envelope = envelopes[got.findIndex((m) => texts(m) === "numbered")];
  seen.envelope = [typeof envelope.event_id, envelope.sequence_num > 0, envelope.source];
  // 26: a suspended stream goes on where it stopped
  browser.suspendSseStream(q);
  handle.write(said("while away")); await handle.flush();
  browser.resumeSseStream(q);
  await until(() => got.some((m) => texts(m) === "while away"));
  seen.away = got.filter((m) => ["numbered", "while away"].includes(texts(m))).map(texts);
  // 27: long and odd text arrives unchanged
  const odd = "\u2028\u0000\ud83e\uddf6".repeat(1000) + "x".repeat(700_000);
  handle.write(said(odd)); await handle.flush();
  await until(() => got.some((m) => texts(m)?.length === odd.length));
  seen.odd = got.some((m) => texts(m) === odd);
  const late = [];
  handle.write(result("the end")); await handle.flush();
  for await (const m of view(session, once())) { late.push(m.type); if (m.type === "result") break; }
  seen.lateDeltas = late.filter((kind) => kind === "stream_event").length;
  // 28: a withdrawn question leaves its viewer
  const aborted = deferred(), shown = deferred();
  const asker = view(session, once(), { canUseTool: (n, i, { signal }) => {
    shown.resolve(); signal.addEventListener("abort", () => aborted.resolve(true)); return new Promise(() => {});
  } });
  (async () => { for await (const _ of asker); })().catch(() => {});
  handle.sendControlRequest(ask("q3")); await shown.promise;
  handle.sendControlCancelRequest("q3");
  seen.withdrawn = await aborted.promise;
  // 29: a prompt of one viewer is seen by the other, and by the worker once
  const writer = view(session, once(user("from afar")));
  (async () => { for await (const _ of writer); })().catch(() => {});
  await until(() => got.some((m) => texts(m) === "from afar"));
  while (!inbound.length) await new Promise((r) => setTimeout(r, 20));
  seen.prompts = inbound;
  handle.close();
}
// 30-32: viewers over a WebSocket
{
  const session = await bridge.createCodeSession(url, token, "socket", 9000);
  const inbound = deferred();
  const { handle } = await attach(session, {
    message: (h, m) => { inbound.resolve(texts(m)); h.write(said("over the socket")); h.sendControlRequest(ask("q4")); },
    answer: (h, r) => { h.write(result(r.response.response.behavior)); },
  });
  const socket = (bearer) => ({
    websocket: {
      url: `${url.replace("http", "ws")}/v1/code/sessions/${session}/events/socket`,
      authMessage: { type: "auth", credential: { type: "oauth", token: bearer } },
    },
  });
  const talk = [];
  for await (const m of browser.query({
    prompt: once(user("hello socket")), ...socket(token),
    canUseTool: async (name, input) => ({ behavior: "allow", updatedInput: input }),
  })) { talk.push(m.type === "result" ? m.result : texts(m)); if (m.type === "result") break; }
  seen.socketInbound = await inbound.promise;
  seen.socket = talk.filter((t) => t !== "hello socket");
  const again = [];
  for await (const m of browser.query({ prompt: once(), ...socket(token) })) {
    again.push(m.type); if (m.type === "result") break;
  }
  seen.socketLate = again;
  try { for await (const _ of browser.query({ prompt: once(), ...socket("wrong") })); seen.socketWrong = "open"; }
  catch (e) { seen.socketWrong = /1008/.test(e.message); }
  handle.close();
}
// 33: a viewer without `canUseTool` leaves the question to the other one
{
  const session = await bridge.createCodeSession(url, token, "mute", 9000);
  const failed = deferred(), allowed = deferred(), heard = [];
  const { handle } = await attach(session, {
    answer: (h, r) => {
      heard.push(r.response.subtype);
      (r.response.subtype === "error" ? failed : allowed).resolve();
    },
  });
  const mute = view(session, once());
  const other = view(session, once(), { canUseTool: async (name, input) => {
    await failed.promise;
    return { behavior: "allow", updatedInput: input };
  } });
  for (const viewer of [mute, other]) (async () => { for await (const _ of viewer); })().catch(() => {});
  handle.sendControlRequest(ask("q5"));
  await allowed.promise;
  // A viewer that reconnects sees the question again, and answers again.
  seen.mute = [...new Set(heard)];
  handle.close();
}
process.stdout.write(JSON.stringify(seen) + "\n");
process.exit(0);
