// The contents of a session, built from its events: prompts, text, tool calls with their results,
// tasks, subagents and open questions. Data only; `rows.js` draws it.

const QUIET = new Map([
	['Read', ['file', 'files']], ['Grep', ['pattern', 'patterns']], ['Glob', ['pattern', 'patterns']], ['LS', ['folder', 'folders']],
	['ToolSearch', ['tool search', 'tool searches']], ['TaskList', ['task list', 'task lists']], ['TaskGet', ['task', 'tasks']],
]);
const HIDDEN_TOOLS = new Set(['TodoWrite', 'TaskCreate', 'TaskUpdate']);
const SECTIONS = /<(system-reminder|command-message|local-command-caveat)>[\s\S]*?<\/\1>/g;
const FOR_MODEL = 'For the model, not written by the user';
const ENTITIES = { lt: '<', gt: '>', quot: '"', amp: '&' };
const INTERRUPTED = /^\[Request interrupted by user/;

export class Transcript {
	constructor(orphans = new Map()) {
		this.items = [];
		this.tools = new Map();
		// Results of calls that are in an older page.
		this.orphans = orphans;
		this.questions = new Map();
		this.prompts = new Map();
		this.todos = [];
		this.tasks = new Map();
		this.plan = '';
		this.agents = [];
		this.live = [];
		this.usage = null;
		this.cost = null;
		this.model = '';
		this.mode = '';
		this.notes = [];
		this.changed = new Set();
		this.number = 0;
		// Whether the message with an ID has left the conversation, by the newest rewind.
		this.left = new Map();
		this.isCut = false;
	}

	/** Note which messages of a page of events, and of older ones, have left the conversation. */
	noteRewinds(events) {
		const older = new Map(this.left);
		for (const { payload } of events) {
			if (payload?.subtype !== 'rewound' || payload.type !== 'system') continue;
			for (const uuid of payload.removed ?? []) this.left.set(uuid, true);
			for (const uuid of payload.restored ?? []) this.left.set(uuid, false);
		}
		for (const [uuid, is] of older) this.left.set(uuid, is);
	}

	/** Return whether an event left the conversation. Events without a message follow the last one. */
	hasLeft({ payload, by }) {
		if (payload?.request?.subtype === 'rewind_conversation') this.rewinder = by;
		if (payload?.subtype === 'rewound') this.isCut = false;
		else if ((payload?.type === 'user' || payload?.type === 'assistant') && !payload.parent_tool_use_id) this.isCut = this.left.get(payload.uuid) === true;
		return this.isCut;
	}

	/** Apply an event. Changed items are added to `changed`, new ones to the end of `items`. */
	take(about) {
		const payload = about.payload ?? {};
		const at = payload.timestamp ?? (about.at_ms ? new Date(about.at_ms).toISOString() : '');
		switch (payload.type) {
			case 'user': return this.takeUser(payload, about, at);
			case 'assistant': return this.takeAssistant(payload, at, about);
			case 'result': return this.takeResult(payload, at);
			case 'system': return this.takeSystem(payload, at);
			case 'control_request':
				if (about.source !== 'client') this.questions.set(payload.request_id, { id: payload.request_id, request: payload.request ?? {}, at });
				return undefined;
			case 'control_cancel_request': return this.close(payload.request_id, 'withdrawn', '');
			case 'control_response': return this.takeResponse(payload, about);
			case 'stream_event': return this.takeLive(payload);
			case 'sealed':
				this.isSealed = true;
				return undefined;
			default: return undefined;
		}
	}

	push(item, list = this.items) {
		item.key = `${item.kind}-${item.id ?? ''}-${this.number++}`;
		item.parent = list.owner ?? null;
		list.push(item);
		if (list.owner) this.touch(list.owner);
		return item;
	}

	touch(item) {
		for (let at = item; at; at = at.parent) {
			at.version = (at.version ?? 0) + 1;
			this.changed.add(at);
		}
	}

	/** Return the list that a frame belongs to: that of its subagent, or that of the session. */
	listOf(payload) {
		const call = payload.parent_tool_use_id && this.tools.get(payload.parent_tool_use_id);
		if (!call) return payload.parent_tool_use_id ? null : this.items;
		if (!call.children) {
			call.children = [];
			call.children.owner = call;
		}
		return call.children;
	}

	takeUser(payload, about, at) {
		const list = this.listOf(payload);
		if (!list) return;
		const content = payload.message?.content;
		const blocks = typeof content === 'string' ? [{ type: 'text', text: content }] : Array.isArray(content) ? content : [];
		const texts = [], media = [];
		for (const block of blocks) {
			if (block.type === 'tool_result') this.takeToolResult(block, payload, at);
			else if (block.type === 'text') texts.push(block.text ?? '');
			else if (block.type === 'image' || block.type === 'document') media.push(block);
		}
		// What a viewer sends is shown as it is, even if it looks like a note for the model.
		const isTyped = about.source === 'client' || payload.origin?.kind === 'human';
		const all = texts.join('\n').trim();
		const text = isTyped ? all : all.replace(SECTIONS, (section, tag) => {
			if (tag === 'system-reminder') this.push({ kind: 'aside', name: FOR_MODEL, text: section, at }, list);
			return '';
		}).trim();
		if (!text && !media.length) return;
		if (payload.origin?.kind === 'task-notification') {
			const words = /<summary>([\s\S]*?)<\/summary>/.exec(text)?.[1] ?? text;
			this.push({ kind: 'notice', text: `Background task: ${words.replace(/&(lt|gt|quot|amp);/g, (_, name) => ENTITIES[name])}`, level: 'notice', at }, list);
			return;
		}
		if (INTERRUPTED.test(text)) {
			this.push({ kind: 'notice', text: 'Interrupted', level: 'quiet', at }, list);
		} else if (payload.isSynthetic || payload.isMeta) {
			this.push({ kind: 'aside', name: FOR_MODEL, text, at }, list);
		} else {
			const known = this.prompts.get(payload.uuid);
			if (known) {
				known.status = about.status || 'processed';
				this.touch(known);
				return;
			}
			const item = this.push({ kind: 'prompt', id: payload.uuid, text: readCommand(text), media, at, by: about.by || payload.origin?.device || '', status: about.source === 'client' ? about.status || 'sent' : 'processed' }, list);
			if (list === this.items && payload.uuid) this.prompts.set(payload.uuid, item);
		}
	}

	takeAssistant(payload, at) {
		const list = this.listOf(payload);
		if (!list) return;
		const message = payload.message ?? {};
		if (list === this.items) {
			if (message.usage) this.usage = message.usage;
			if (message.model && message.model !== '<synthetic>') this.model = message.model;
		}
		for (const block of Array.isArray(message.content) ? message.content : [{ type: 'text', text: message.content ?? '' }]) {
			if (list === this.items) this.endLive(block.type);
			if (block.type === 'text' && block.text?.trim()) {
				if (payload.is_api_error_message || payload.error) this.push({ kind: 'notice', text: block.text, level: 'error', at }, list);
				else this.push({ kind: 'text', id: payload.uuid, text: block.text, at, isAborted: payload.aborted }, list);
			} else if (block.type === 'thinking' && block.thinking?.trim()) {
				this.push({ kind: 'thinking', text: block.thinking, at }, list);
			} else if (block.type === 'tool_use' || block.type === 'server_tool_use') {
				this.takeCall(block, list, at, payload.uuid);
			}
		}
	}

	takeCall(block, list, at, uuid) {
		if (this.tools.has(block.id)) return;
		const item = { kind: 'tool', id: block.id, uuid, name: block.name, input: block.input ?? {}, status: 'running', at };
		this.tools.set(block.id, item);
		this.noteTasks(item);
		if (HIDDEN_TOOLS.has(block.name)) {
			this.settle(item);
			return;
		}
		if (QUIET.has(block.name)) {
			let group = list.at(-1);
			if (group?.kind !== 'group') {
				group = this.push({ kind: 'group', tools: [], at }, list);
			}
			item.parent = group;
			group.tools.push(item);
			this.touch(group);
		} else {
			this.push(item, list);
			if (block.name === 'Task' || block.name === 'Agent') this.agents.push(item);
		}
		this.settle(item);
	}

	settle(item) {
		const waiting = this.orphans.get(item.id);
		if (waiting) {
			this.orphans.delete(item.id);
			this.takeToolResult(...waiting);
		}
	}

	takeToolResult(block, payload, at) {
		const item = this.tools.get(block.tool_use_id);
		if (!item) {
			this.orphans.set(block.tool_use_id, [block, payload, at]);
			return;
		}
		const content = block.content;
		const text = typeof content === 'string' ? content : (content ?? []).filter((part) => part.type === 'text').map((part) => part.text).join('\n');
		item.images = Array.isArray(content) ? content.filter((part) => part.type === 'image') : [];
		// The result of a call that did not run tells the model what to do; people see other words.
		item.result = payload.display ?? text;
		item.about = payload.tool_use_result;
		item.endedAt = at;
		item.status = payload.tool_denial_kind ? 'denied' : block.is_error ? 'failed' : 'done';
		this.noteTasks(item);
		this.touch(item);
	}

	noteTasks(item) {
		const { name, input, about } = item;
		if (name === 'TodoWrite' && Array.isArray(input.todos)) {
			this.todos = input.todos.map((todo) => ({ text: todo.content ?? '', now: todo.activeForm ?? '', status: todo.status ?? 'pending' }));
		} else if (name === 'TaskCreate' && about?.task?.id) {
			if (!this.tasks.has(about.task.id)) this.tasks.set(about.task.id, { text: input.subject ?? '', now: input.activeForm ?? '', status: 'pending' });
		} else if (name === 'TaskUpdate' && this.tasks.has(input.taskId) && item.status === 'done') {
			const task = this.tasks.get(input.taskId);
			if (input.subject) task.text = input.subject;
			if (input.status) task.status = input.status;
		} else if (name === 'ExitPlanMode' && input.plan) {
			this.plan = String(input.plan);
		}
	}

	get tasksShown() {
		return this.tasks.size ? [...this.tasks.values()].filter((task) => task.status !== 'deleted') : this.todos;
	}

	takeResult(payload, at) {
		this.live = [];
		// The reported costs are totals. If a page begins within a session, the first turn's cost is
		// unknown.
		const before = this.cost ?? (this.isWhole ? 0 : NaN);
		if (typeof payload.total_cost_usd === 'number') this.cost = payload.total_cost_usd;
		const models = Object.values(payload.modelUsage ?? {});
		const window = Math.max(0, ...models.map((model) => model.contextWindow ?? 0));
		if (window) this.window = window;
		if (payload.is_error && payload.result) this.push({ kind: 'notice', text: payload.result, level: 'error', at });
		// A command, such as a rewind, is no turn.
		if (payload.num_turns === 0 && !payload.is_error && payload.duration_ms < 1000) return;
		this.push({ kind: 'turn', ms: payload.duration_ms, usd: this.cost - before, usage: payload.usage, isError: payload.is_error, subtype: payload.subtype, at });
	}

	takeSystem(payload, at) {
		switch (payload.subtype) {
			case 'init':
				this.model = payload.model ?? this.model;
				this.mode = payload.permissionMode ?? this.mode;
				break;
			case 'turn_duration':
				this.push({ kind: 'turn', ms: payload.durationMs, at });
				break;
			case 'informational': case 'api_error':
				this.push({ kind: 'notice', text: payload.content ?? '', level: payload.level ?? 'notice', at });
				break;
			case 'compact_boundary': {
				const about = payload.compact_metadata ?? payload.compactMetadata ?? {};
				this.push({ kind: 'boundary', before: about.pre_tokens ?? about.preTokens, after: about.post_tokens ?? about.postTokens, at });
				break;
			}
			case 'rewound':
				this.push({ kind: 'notice', text: `Rewound${this.rewinder ? ` by ${this.rewinder}` : ''}`, level: 'quiet', at });
				this.rewinder = '';
				break;
			case 'status':
				this.status = payload.status ?? '';
				if (payload.permissionMode) this.mode = payload.permissionMode;
				break;
			case 'api_retry':
				this.push({ kind: 'notice', text: `${payload.content || 'The service did not answer'}; retrying (${payload.attempt} of ${payload.max_retries})`, level: 'quiet', at });
				break;
			case 'model_fallback':
				this.push({ kind: 'notice', text: payload.content ?? '', level: 'notice', at });
				break;
			case 'task_started': case 'task_progress': case 'task_notification': {
				const item = this.tools.get(payload.tool_use_id);
				if (item) {
					item.task = { ...item.task, ...payload };
					this.touch(item);
				}
				break;
			}
			default:
		}
	}

	takeResponse(payload, about) {
		const response = payload.response ?? {};
		if (about.source === 'client' && response.subtype === 'error') return; // The question stays open.
		if (about.source === 'client') {
			const verdict = response.response ?? {};
			this.close(response.request_id, verdict.behavior === 'deny' ? 'denied' : 'allowed', about.by, verdict.message);
		} else if (response.subtype === 'error') {
			this.rewinder = '';
			this.notes.push(response.error ?? '');
		}
	}

	close(id, how, by, words) {
		const question = this.questions.get(id);
		this.questions.delete(id);
		const item = question && this.tools.get(question.request.tool_use_id);
		if (item) {
			item.answer = { how, by, words };
			this.touch(item);
		}
		if (question) this.closed = { id, how, by };
	}

	// -- the streaming answer

	takeLive(payload) {
		if (payload.parent_tool_use_id) return;
		const event = payload.event ?? {};
		if (event.type === 'message_start') this.live = [];
		else if (event.type === 'content_block_start') {
			const block = event.content_block ?? {};
			this.live.push({ index: event.index, type: block.type, name: block.name ?? '', id: block.id, text: block.text ?? '', added: block.text ?? '' });
		} else if (event.type === 'content_block_delta') {
			let block = this.live.find((known) => known.index === event.index);
			const delta = event.delta ?? {};
			const text = delta.text ?? delta.thinking ?? delta.partial_json ?? '';
			if (!block) {
				// This viewer connected in the middle of the block.
				block = { index: event.index, type: { text_delta: 'text', thinking_delta: 'thinking' }[delta.type] ?? 'tool_use', name: '', text: '', added: '', isPart: true };
				this.live.push(block);
			}
			block.text += text;
			block.added += text;
		}
	}

	endLive(type) {
		const kind = type === 'redacted_thinking' ? 'thinking' : type;
		const at = this.live.findIndex((block) => block.type === kind);
		if (at >= 0) this.live.splice(at, 1);
	}

	// -- older pages

	/** Insert an older page before the known events, and return its items. */
	prepend(events) {
		const older = new Transcript(this.orphans);
		older.number = -1_000_000 - this.number * 1000;
		older.left = this.left;
		older.noteRewinds(events);
		for (const about of events) {
			if (about.payload?.type !== 'control_request' && !older.hasLeft(about)) older.take(about);
		}
		const settled = [...this.orphans.keys()].filter((id) => older.tools.has(id));
		for (const id of settled) older.settle(older.tools.get(id));
		this.number += events.length + 1;
		for (const [id, item] of older.tools) if (!this.tools.has(id)) this.tools.set(id, item);
		for (const [id, item] of older.prompts) if (!this.prompts.has(id)) this.prompts.set(id, item);
		this.agents.unshift(...older.agents);
		if (!this.todos.length) this.todos = older.todos;
		for (const [id, task] of older.tasks) if (!this.tasks.has(id)) this.tasks.set(id, task);
		this.plan ||= older.plan;
		this.cost ??= older.cost;
		this.window ??= older.window;
		this.usage ??= older.usage;
		this.model ||= older.model;
		this.mode ||= older.mode;
		this.items.unshift(...older.items);
		return older.items;
	}

	get contextTokens() {
		const used = this.usage;
		if (!used) return 0;
		return (used.input_tokens ?? 0) + (used.cache_read_input_tokens ?? 0) + (used.cache_creation_input_tokens ?? 0) + (used.output_tokens ?? 0);
	}
}

/** Return a slash command as it was typed. */
function readCommand(text) {
	const name = /<command-name>(.*?)<\/command-name>/s.exec(text);
	if (!name) return text;
	const given = /<command-args>(.*?)<\/command-args>/s.exec(text);
	return `${name[1]} ${given?.[1] ?? ''}`.trim();
}

/** Describe a group of quiet calls: "Read 2 files, searched 1 pattern". */
export function describeGroup(tools) {
	const counted = new Map();
	for (const tool of tools) {
		const verb = { Read: 'Read', Grep: 'searched', Glob: 'matched', LS: 'listed' }[tool.name] ?? 'made';
		counted.set(verb, [(counted.get(verb)?.[0] ?? 0) + 1, QUIET.get(tool.name)]);
	}
	const words = [...counted].map(([verb, [number, [one, more]]]) => `${verb} ${number} ${number === 1 ? one : more}`).join(', ');
	return words[0].toUpperCase() + words.slice(1);
}
