// A program on the TypeScript Agent SDK: one streaming session with a question for permission and the
// controls of a session, then a query of one prompt that goes on with it. Prints what came as JSON.
import { query } from "@anthropic-ai/claude-agent-sdk";

const base = { pathToClaudeCodeExecutable: process.env.CLEW, cwd: process.env.WORK, env: { ...process.env } };
const seen = { kinds: [], asked: [], controls: {} };

let close;
const closed = new Promise((resolve) => { close = resolve; });
async function* prompts() {
  yield { type: "user", message: { role: "user", content: "make it" }, parent_tool_use_id: null, session_id: "" };
  await closed;
}
const first = query({
  prompt: prompts(),
  options: {
    ...base,
    includePartialMessages: true,
    canUseTool: async (tool, input) => { seen.asked.push(tool); return { behavior: "allow", updatedInput: input }; },
    hooks: { PreToolUse: [{ hooks: [async (input) => { seen.hook = input.tool_name; return { continue: true }; }] }] },
  },
});
for await (const message of first) {
  seen.kinds.push(message.type === "system" || message.type === "result" ? message.subtype : message.type);
  if (message.type === "result") {
    seen.session = message.session_id;
    seen.result = message.result;
    const asks = {
      commands: () => first.supportedCommands(),
      models: () => first.supportedModels(),
      agents: () => first.supportedAgents(),
      account: () => first.accountInfo(),
      servers: () => first.mcpServerStatus(),
      context: () => first.getContextUsage(),
      model: () => first.setModel("haiku"),
      mode: () => first.setPermissionMode("acceptEdits"),
      thinking: () => first.setMaxThinkingTokens(2000),
      settings: () => first.applyFlagSettings({ model: "opus" }),
      put: () => first.setMcpServers({}),
    };
    for (const [name, ask] of Object.entries(asks)) {
      try { await ask(); seen.controls[name] = "ok"; } catch (error) { seen.controls[name] = String(error); }
    }
    close();
  }
}
for await (const message of query({ prompt: "and again", options: { ...base, resume: seen.session } })) {
  if (message.type === "result") seen.again = [message.result, message.session_id === seen.session];
}
const named = {
  ...base,
  allowedTools: ["Bash"],
  toolAliases: { Shell: "Bash" },
  managedSettings: { permissions: { deny: ["Bash(touch:*)"], allow: ["Write"] }, disableAllHooks: false },
};
for await (const message of query({ prompt: "by another name", options: named })) {
  if (message.type === "result") seen.named = [message.result, message.permission_denials.map((one) => one.tool_name)];
}
const planned = { ...base, permissionMode: "plan", planModeInstructions: "Begin with a haiku." };
for await (const message of query({ prompt: "plan it", options: planned })) {
  if (message.type === "result") seen.planned = message.result;
}
console.log(JSON.stringify(seen));
