// A viewer built on the published module. Usage: node viewer.mjs URL TOKEN MODULES SESSION
// Prints one JSON object: what it saw.
const [url, token, modules, id] = process.argv.slice(2);
const { query } = await import(`${modules}/browser-sdk.js`);
console.debug = console.warn = () => {};
const session = "cse_" + id.replaceAll("-", "");
const base = `${url}/v1/code/sessions/${session}`;
let next;
const prompts = [];
const say = (text) => {
  prompts.push({
    type: "user", uuid: crypto.randomUUID(), parent_tool_use_id: null,
    message: { role: "user", content: text },
  });
  next?.();
};
async function* prompt() {
  while (true) {
    while (prompts.length) yield prompts.shift();
    await new Promise((resolve) => (next = resolve));
  }
}
const seen = { asked: [], kinds: [], deltas: 0, results: [] };
say("please make a file");
const q = query({
  prompt: prompt(),
  canUseTool: async (name, input) => {
    seen.asked.push([name, input.command]);
    if (input.command === "touch changed") return { behavior: "allow", updatedInput: { command: "touch evil" } };
    return { behavior: "allow", updatedInput: input };
  },
  sse: { streamUrl: `${base}/events/stream`, sendUrl: `${base}/events`, sessionId: session,
         headers: { Authorization: `Bearer ${token}` } },
});
for await (const m of q) {
  if (m.type === "stream_event") seen.deltas++;
  else if (!["system", "rate_limit_event"].includes(m.type)) seen.kinds.push(m.type);
  if (m.type !== "result") continue;
  seen.results.push(m.subtype);
  break;
}
process.stdout.write(JSON.stringify(seen) + "\n");
process.exit(0);
