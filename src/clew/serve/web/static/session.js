// One session: transcript, streaming answer, questions, prompt box and connection state.

import { count, h, icon, iconButton, money, put, refill, say, span, tokens, visible } from './dom.js';
import { briefOf, drawCard, titleOf } from './cards.js';
import { Composer, modeName } from './composer.js';
import { GrowingText } from './markdown.js';
import { ask, device, keep, Link, readEvents, recall, Refusal, send } from './net.js';
import { Rows } from './rows.js';
import { Scroller } from './scroller.js';
import { Transcript } from './transcript.js';

const FIRST_EVENTS = 60;
const PAGE_EVENTS = 300;
// If more events than this are missing, reloading the end is faster.
const FAR_BEHIND = 1500;
const STRICTNESS = ['plan', 'dontAsk', 'default', 'acceptEdits', 'auto', 'bypassPermissions'];
const OLD_MS = 12_000;
const SEALED = 'This session is sealed, and this browser has no key for it. Pair it again: run clew pair on the machine that runs the session.';

export class SessionView {
	/** `home` has `listed(sessions)`, `leave()`, and `refused(why)`. */
	constructor(id, home) {
		this.id = id;
		this.home = home;
		this.about = {};
		this.present = [];
		this.pending = new Map();
		this.model = new Transcript();
		this.isWhole = false;
		this.rows = new Rows({
			cwd: () => this.cwd, me: () => device?.name, isAsked: (call) => [...this.model.questions.values()].some((q) => q.request.tool_use_id === call),
			opened: () => this.scroller.later(), menu: (item) => this.drawMenu(item),
		});
		this.scroller = new Scroller({ label: 'Transcript', draw: (item) => this.rows.draw(item), atTop: () => this.readOlder(), moved: (sticks) => this.below.classList.toggle('gone', sticks) });
		this.growing = h('div', { class: 'live' });
		this.scroller.foot.append(this.growing);
		this.title = h('h1', { dir: 'auto' });
		this.sub = h('p', { class: 'sub', dir: 'ltr' });
		this.link = h('button', { type: 'button', class: 'link-state', 'aria-live': 'polite', onclick: () => this.stream?.wake() });
		this.people = h('span', { class: 'people' });
		this.below = h('button', { type: 'button', class: 'below gone', onclick: () => this.scroller.toEnd() }, icon('down'), 'Newest');
		this.dock = h('div', { class: 'dock', role: 'region', 'aria-label': 'Questions and prompt' });
		this.cards = h('div', { class: 'cards' });
		this.bars = h('div', { class: 'bars' });
		this.side = h('aside', { class: 'side', 'aria-label': 'About this session' });
		this.composer = new Composer({
			send: (content) => this.prompt(content), stop: () => this.request('interrupt', {}), change: (subtype, fields) => this.request(subtype, fields),
			draft: sessionStorage.getItem(`draft-${id}`), keepDraft: (text) => sessionStorage.setItem(`draft-${id}`, text),
		});
		put(this.dock, this.below, this.cards, this.composer.element);
		this.element = h('main', { class: 'session', id: 'main', tabindex: '-1' },
			h('header', { class: 'top' },
				iconButton('back', 'All sessions', () => home.leave(), { class: 'icon-button only-phone' }),
				h('div', { class: 'titles' }, this.title, this.sub), this.people, this.link,
				this.sideButton = iconButton('panel', 'About this session', () => this.toggleSide(), { 'aria-expanded': 'false' })),
			this.bars, this.scroller.element, this.dock, this.side);
		this.clock = setInterval(() => this.showLink(), 1000);
	}

	get cwd() {
		return this.about.config?.cwd ?? this.about.external_metadata?.cwd ?? '';
	}

	can(scope) {
		return device?.scopes?.includes(scope);
	}

	async open() {
		try {
			await this.load();
			if (sessionStorage.getItem(`fresh-${this.id}`)) {
				// What is typed now is the first prompt, not a shortcut.
				sessionStorage.removeItem(`fresh-${this.id}`);
				this.composer.box.focus();
			}
			for (const [uuid, content] of Object.entries((await recall(`queue-${this.id}`)) ?? {})) this.queue(uuid, content);
		} catch (error) {
			if (error instanceof Refusal && !error.isPassing) {
				this.home.refused(error);
				return;
			}
			this.showLink();
			this.retry = setTimeout(() => this.open(), 1500);
		}
	}

	close() {
		clearInterval(this.clock);
		clearTimeout(this.retry);
		this.stream?.close();
		this.scroller.close();
	}

	async load() {
		const page = await readEvents(this.id, `limit=${FIRST_EVENTS}`);
		this.reset();
		// Load older events only after the end is on the screen.
		this.isReading = true;
		this.about = page.session;
		this.first = page.first;
		this.isWhole = this.model.isWhole = !page.more;
		for (const about of page.questions) this.model.take(about);
		this.model.noteRewinds(page.events);
		for (const about of page.events) if (!this.model.hasLeft(about)) this.model.take(about);
		this.model.changed.clear();
		this.scroller.append(this.model.items);
		this.shown = this.model.items.length;
		this.scroller.toEnd();
		this.stream?.close();
		this.stream = new Link(this.id, page.last, { event: (name, value) => this.take(name, value), state: () => this.showLink() });
		for (const item of this.pending.values()) {
			if (this.model.prompts.has(item.id)) continue;
			this.model.items.push(item);
			this.model.prompts.set(item.id, item);
			this.scroller.append([item]);
			this.shown++;
		}
		this.showAll();
		requestAnimationFrame(() => {
			performance.mark('shown');
			setTimeout(() => {
				this.isReading = false;
				this.scroller.refresh();
			}, 100);
		});
	}

	reset() {
		this.model = new Transcript();
		this.scroller.list.replaceChildren();
		this.scroller.pieces = [];
		this.shown = 0;
	}

	async readOlder() {
		if (this.isWhole || this.isReading || !this.first) return;
		this.isReading = true;
		try {
			const page = await readEvents(this.id, `before=${this.first}&limit=${PAGE_EVENTS}`);
			this.first = page.first || this.first;
			this.isWhole = !page.more;
			const items = this.model.prepend(page.events);
			this.shown += items.length;
			this.scroller.prepend(items);
			this.showSide();
			// All of this page may have left the conversation.
			if (!items.length) this.scroller.later();
		} catch {
			// The next scroll tries again.
		} finally {
			this.isReading = false;
		}
	}

	// -- events of the stream

	take(name, value) {
		switch (name) {
			case 'event': {
				if (value.payload?.subtype === 'rewound') {
					if (value.payload.removed?.includes(this.editing?.id)) this.composer.take(this.editing.text);
					this.open();
					return;
				}
				const before = this.model.questions.size;
				this.model.take(value);
				this.settled(value);
				if (this.model.questions.size > before) this.announce();
				this.later();
				break;
			}
			case 'ephemeral_event':
				this.model.takeLive(value.payload);
				this.later(true);
				break;
			case 'delivery_update': {
				const status = value.status.replace('DELIVERY_STATUS_', '').toLowerCase();
				const item = this.model.prompts.get(value.event_id);
				if (item && item.status !== 'processed') {
					item.status = status;
					this.scroller.update([item]);
				}
				break;
			}
			case 'session':
				// The numbers now refer to another log.
				if ((value.origin ?? 'log') !== (this.about.origin ?? 'log')) {
					this.load().catch(() => {});
					return;
				}
				if (value.last_sequence_num - this.stream.after > FAR_BEHIND) this.load();
				this.about = value;
				this.home.changed(value);
				this.later();
				break;
			case 'presence':
				this.present = value;
				this.showPresence();
				break;
			case 'sessions':
				this.home.listed(value);
				break;
			default:
		}
	}

	settled(about) {
		const payload = about.payload ?? {};
		if (payload.type === 'result') say(payload.is_error ? 'The turn failed.' : 'The turn has finished.');
		for (const words of this.model.notes.splice(0)) this.toast(words);
		const closed = this.model.closed;
		this.model.closed = null;
		if (closed && this.answering === closed.id) this.answering = null;
		else if (closed?.by) say(`${closed.how === 'denied' ? 'Denied' : 'Allowed'} by ${closed.by}`);
		const item = this.pending.get(payload.uuid);
		if (item) {
			this.pending.delete(payload.uuid);
			this.keepQueue();
		}
	}

	announce() {
		const question = [...this.model.questions.values()].at(-1);
		say(`Question: ${titleOf(question.request)} ${briefOf(question.request)}`);
		if (document.hidden && localStorage.getItem('push') === 'page' && globalThis.Notification?.permission === 'granted') {
			new Notification(titleOf(question.request), { body: briefOf(question.request), tag: this.id });
		}
	}

	/** Draw changes in the next frame; `isLive` means that only the streaming answer changed. */
	later(isLive = false) {
		this.isLive = isLive && (this.isLive ?? true);
		this.frame ??= requestAnimationFrame(() => {
			this.frame = null;
			this.showNew();
		});
	}

	showNew() {
		const { isLive } = this;
		// Spend at most a third of the time on a streaming answer, so that the page stays smooth.
		if (isLive && performance.now() < this.restsUntil) {
			this.later(true);
			return;
		}
		this.isLive = undefined;
		if (isLive) {
			const begin = performance.now();
			this.showLive();
			this.restsUntil = begin + 3 * (performance.now() - begin);
			return;
		}
		const model = this.model;
		const fresh = model.items.slice(this.shown);
		this.shown = model.items.length;
		const changed = [...model.changed].filter((item) => !fresh.includes(item) && !item.parent);
		model.changed.clear();
		this.scroller.append(fresh);
		this.scroller.update(changed);
		this.showLive();
		this.showAll();
	}

	/** Show the streaming answer: one element for each block, to which text is only appended. */
	showLive() {
		const blocks = this.model.live.filter((block) => block.type === 'text' || block.type === 'thinking' || block.name);
		this.scroller.keepPlace(() => {
			const kept = new Set(blocks);
			for (const [block, shown] of this.growingBlocks ??= new Map()) {
				if (!kept.has(block)) {
					shown.element.remove();
					this.growingBlocks.delete(block);
				}
			}
			for (const block of blocks) {
				let shown = this.growingBlocks.get(block);
				if (!shown) {
					shown = this.makeGrowing(block);
					this.growingBlocks.set(block, shown);
					this.growing.append(shown.element);
				}
				if (block.added) {
					shown.text?.add(block.added);
					block.added = '';
					shown.text?.draw();
					shown.count?.(block.text.length);
				}
			}
			const last = this.model.items.at(-1);
			const isTold = last?.status === 'running' || last?.tools?.some((tool) => tool.status === 'running');
			const isWorking = this.about.worker_status === 'running' && !blocks.length && !isTold;
			this.growing.classList.toggle('working', isWorking);
		});
	}

	makeGrowing(block) {
		if (block.type === 'text') {
			const text = new GrowingText();
			return { element: h('div', { class: 'row said' }, h('span', { class: 'gutter' }), h('div', { class: 'body' }, block.isPart && h('p', { class: 'quiet' }, '…'), text.element)), text };
		}
		const words = h('span', { class: 'quiet' }, block.type === 'thinking' ? 'Thinking' : `Preparing ${block.name}`);
		const size = h('span', { class: 'count' });
		return { element: h('div', { class: 'row tool running' }, h('span', { class: 'gutter' }, '○'), h('div', { class: 'body' }, words, size)), count: (n) => { size.textContent = n > 400 ? `${tokens(n)} characters` : ''; } };
	}

	get isRunning() {
		return this.about.worker_status === 'running' || this.about.worker_status === 'requires_action';
	}

	get isHere() {
		return this.about.connection_status === 'connected';
	}

	/** Draw prompts and the side panel again, because more actions are available now. */
	refresh() {
		this.sideKey = '';
		this.scroller.update(this.model.items.filter((item) => item.kind === 'prompt'));
		this.showAll();
	}

	showAll() {
		const about = this.about, meta = about.external_metadata ?? {};
		this.title.textContent = visible(about.title || 'Session');
		document.title = `${this.model.questions.size ? `(${this.model.questions.size}) ` : ''}${about.title || 'Session'} · clew`;
		// Without a repository or a branch, the transcript names HEAD.
		this.sub.textContent = visible([this.cwd, meta.git_branch !== 'HEAD' && meta.git_branch].filter(Boolean).join(' · '));
		this.showCards();
		this.showLink();
		this.showSide();
		const mode = meta.permission_mode === 'manual' ? 'default' : meta.permission_mode ?? this.model.mode;
		const at = STRICTNESS.indexOf(mode);
		this.composer.show({
			mode, model: meta.model ?? this.model.model, isRunning: this.isRunning, isHere: this.isHere,
			canPrompt: this.can('prompt') && about.read_only !== true, canAnswer: this.can('answer'),
			why: about.read_only === true ? about.why ?? 'This session is open elsewhere, so you can only watch.' : 'This browser can watch, but not send prompts.',
			modes: at < 0 ? ['default'] : STRICTNESS.filter((name, i) => i <= at && (name !== 'dontAsk' || i === at)),
		});
	}

	// -- questions

	showCards() {
		const open = [...this.model.questions.values()];
		const first = open[0];
		if (this.cardOf === first?.id && this.cardCount === open.length) return;
		const hadFocus = this.cards.contains(document.activeElement);
		this.cardOf = first?.id;
		this.cardCount = open.length;
		this.card = first ? drawCard(first, {
			cwd: this.cwd, waiting: open.length, place: this.cwd,
			allows: { answer: this.can('answer'), session: (this.about.external_metadata?.answers ?? '') === 'session' },
			answer: (verdict) => this.answer(first, verdict),
		}) : null;
		refill(this.cards, this.card);
		this.element.classList.toggle('asked', Boolean(first));
		if (this.card && hadFocus) this.card.focus({ preventScroll: true });
		for (const item of this.model.tools.values()) {
			if (item.status === 'running' && item.element?.isConnected) this.scroller.update([item]);
		}
		this.scroller.settle();
	}

	async answer(question, verdict) {
		this.answering = question.id;
		const payload = { type: 'control_response', uuid: crypto.randomUUID(), response: { subtype: 'success', request_id: question.id, response: verdict } };
		try {
			const result = await send(this.id, payload);
			if (result?.answered_by) {
				this.toast(`Not sent: ${result.answered_by === 'no such question' ? 'the question is no longer open' : `${result.answered_by} has already answered`}.`);
				this.model.close(question.id, '', '');
				this.later();
			}
		} catch (error) {
			this.toast(`Not sent: ${error.message}`);
			this.cardOf = undefined;
			this.showCards();
		}
	}

	async request(subtype, fields) {
		try {
			await send(this.id, { type: 'control_request', uuid: crypto.randomUUID(), request_id: crypto.randomUUID(), request: { subtype, ...fields } }, { tries: 3 });
			if (subtype === 'interrupt') say('Interrupted');
		} catch (error) {
			this.toast(`Request failed: ${error.message}`);
		}
	}

	// -- prompts: shown at once, retried until the server has them, saved if the page is closed

	prompt(content) {
		const uuid = crypto.randomUUID();
		this.queue(uuid, content);
		this.keepQueue();
		this.scroller.toEnd();
	}

	queue(uuid, content) {
		if (this.model.prompts.has(uuid)) return;
		const blocks = typeof content === 'string' ? [{ type: 'text', text: content }] : content;
		const item = this.model.push({ kind: 'prompt', id: uuid, text: blocks.filter((b) => b.type === 'text').map((b) => b.text).join('\n'), media: blocks.filter((b) => b.type === 'image'), status: 'waiting', content });
		this.model.prompts.set(uuid, item);
		this.pending.set(uuid, item);
		this.later();
		this.sendPrompt(uuid, content, item);
	}

	async sendPrompt(uuid, content, item) {
		try {
			await (this.sending = (this.sending ?? Promise.resolve()).then(() => this.makeReady()).then(() => send(this.id, { type: 'user', uuid, message: { role: 'user', content } })));
			if (item.status === 'waiting') item.status = 'sent';
		} catch (error) {
			this.sending = null;
			item.status = 'failed';
			item.why = `Not sent: ${error.message}`;
		}
		this.pending.delete(uuid);
		this.keepQueue();
		this.scroller.update([item]);
	}

	/** Make the machine open a session of which only the transcript exists. */
	async makeReady() {
		if (this.about.origin !== 'file') return;
		await ask('POST', `/v1/web/sessions/${this.id}/host`, {});
		await this.load();
	}

	keepQueue() {
		const waiting = Object.fromEntries([...this.pending].map(([uuid, item]) => [uuid, item.content]));
		keep(`queue-${this.id}`, Object.keys(waiting).length ? waiting : undefined);
	}

	drawMenu(item) {
		if (item.status === 'sent' || item.status === 'received') {
			return iconButton('close', 'Withdraw this prompt', () => this.request('cancel_async_message', { message_uuid: item.id }), { class: 'icon-button row-menu' });
		}
		return this.home.drawPromptMenu?.(this, item);
	}

	// -- the connection state, as text

	showLink() {
		const stream = this.stream;
		const age = stream ? stream.ageMs : 0;
		let state = 'live', words = 'Live';
		if (!stream) [state, words] = ['lost', navigator.onLine ? 'Connecting' : 'Offline'];
		else if (stream.state === 'refused') [state, words] = ['refused', stream.why || 'Access revoked'];
		else if (stream.state !== 'live' || age > OLD_MS) [state, words] = ['lost', `Updated ${span(age)} ago, ${navigator.onLine ? 'reconnecting' : 'offline'}`];
		else if (this.about.read_only) [state, words] = ['live', 'Live, read-only'];
		else if (this.about.connection_status === 'resting') [state, words] = ['away', 'Not open'];
		else if (!this.isHere) [state, words] = ['away', 'Machine not connected'];
		if (this.linkWords !== words) {
			this.linkWords = words;
			refill(this.link, h('span', { class: `dot ${state}`, 'aria-hidden': 'true' }), h('span', null, words));
			this.link.title = words === 'Not open' ? 'No process has this session open. A prompt opens it.' : state === 'away' ? 'The session’s machine is not connected. Prompts are sent when it reconnects.' : 'Connection state';
		}
		this.element.classList.toggle('stale', state === 'lost' || state === 'refused');
		if (state === 'refused' && !this.wasRefused) {
			this.wasRefused = true;
			this.home.refused(new Refusal(401, words));
		}
	}

	showPresence() {
		const others = this.present.filter((name) => name !== device?.name);
		this.people.textContent = others.length ? `${others.slice(0, 2).join(', ')}${others.length > 2 ? ` +${others.length - 2}` : ''} here` : '';
		this.people.title = this.present.join(', ');
	}

	// -- the side panel

	get context() {
		const meta = this.about.external_metadata ?? {};
		return { used: meta.context_used ?? this.model.contextTokens, max: meta.context_max ?? this.model.window ?? 0 };
	}

	toggleSide() {
		const open = this.element.classList.toggle('with-side');
		this.sideButton.setAttribute('aria-expanded', String(open));
		if (open && matchMedia('(max-width: 70rem)').matches) this.side.querySelector('button, [tabindex]')?.focus();
	}

	showSide() {
		const { used, max } = this.context;
		const part = max ? Math.min(1, used / max) : 0;
		const cost = this.about.external_metadata?.cost_usd ?? this.model.cost;
		const tasks = this.model.tasksShown;
		const done = tasks.filter((task) => task.status === 'completed').length;
		const current = tasks.find((task) => task.status === 'in_progress');
		const key = JSON.stringify([used, max, cost, tasks, this.model.isSealed, this.model.plan.length, this.model.agents.map((a) => [a.status, a.task?.usage]), this.pending.size, this.present]);
		if (key === this.sideKey) return;
		this.sideKey = key;
		refill(this.bars, this.model.isSealed && h('p', { class: 'bad note', role: 'alert' }, SEALED), tasks.length > 0 && h('div', { class: 'task-line' }, h('span', { class: 'meter', role: 'img', 'aria-label': `${done} of ${tasks.length} tasks done` }, meter(done / tasks.length)), h('span', { class: 'quiet' }, `${done} of ${tasks.length}`), current && h('span', { class: 'now', dir: 'auto' }, visible(current.now || current.text))));
		const figure = (name, value, bar, level) => h('div', { class: 'figure' }, h('div', { class: 'line' }, h('span', { class: 'quiet' }, name), h('span', { class: 'number' }, value)), bar != null && h('span', { class: `meter ${level}`, 'aria-hidden': 'true' }, meter(bar)));
		refill(this.side,
			h('div', { class: 'side-head' }, h('h2', null, 'Session'), iconButton('close', 'Close', () => this.toggleSide())),
			used > 0 && figure('Context', max ? `${tokens(used)} of ${tokens(max)}` : `${tokens(used)} tokens`, max ? part : null, part > 0.85 ? 'high' : part > 0.65 ? 'mid' : ''),
			cost != null && figure('Cost', money(cost)),
			tasks.length > 0 && section(`Tasks · ${done} of ${tasks.length}`, h('ol', { class: 'tasks' }, tasks.map((task) => h('li', { class: task.status, dir: 'auto' }, h('span', { class: 'task-sign', role: 'img', 'aria-label': task.status.replace('_', ' ') }, task.status === 'completed' ? '✓' : task.status === 'in_progress' ? '●' : '○'), h('span', null, visible(task.text)))))),
			this.model.agents.length > 0 && section('Agents', drawAgents(this.model.agents, (item) => this.showItem(item))),
			this.model.plan && section('Plan', h('button', { type: 'button', class: 'plain', onclick: () => this.showPlan() }, 'Open the plan')),
			this.home.drawSide?.(this));
	}

	showItem(item) {
		let top = item;
		while (top.parent) top = top.parent;
		if (top.piece) this.scroller.show(top);
		if (this.element.classList.contains('with-side') && matchMedia('(max-width: 70rem)').matches) this.toggleSide();
	}

	showPlan() {
		const dialog = h('dialog', { class: 'wide', 'aria-label': 'Plan' }, h('div', { class: 'side-head' }, h('h2', null, 'Plan'), iconButton('close', 'Close', () => dialog.close())), this.rows.describe({ name: 'ExitPlanMode', input: { plan: this.model.plan } }).body());
		dialog.addEventListener('close', () => dialog.remove());
		document.body.append(dialog);
		dialog.showModal();
	}

	toast(words) {
		say(words);
		const note = h('div', { class: 'toast', role: 'alert' }, h('span', null, words), iconButton('close', 'Close', () => note.remove()));
		this.dock.prepend(note);
		setTimeout(() => note.remove(), 8000);
	}

	press(event) {
		if (this.card?.press(event.key.toLowerCase())) return true;
		if (event.key === 'Escape' && this.element.classList.contains('with-side')) this.toggleSide();
		else if (event.key === 'i' || event.key === 'Enter') this.composer.box.focus();
		else if (event.key === 'G' || event.key === 'End') this.scroller.toEnd();
		else if (event.key === 'p') this.toggleSide();
		else return false;
		return true;
	}
}

function meter(part) {
	const bar = h('span', { class: 'fill' });
	bar.style.inlineSize = `${Math.round(Math.max(part, 0.01) * 100)}%`;
	return bar;
}

function section(title, ...content) {
	return h('section', null, h('h3', null, title), content);
}

function drawAgents(agents, show) {
	const nested = (item) => (item.children ?? []).filter((child) => child.name === 'Task' || child.name === 'Agent');
	const line = (item) => h('li', null, h('button', { type: 'button', class: 'plain agent-line', onclick: () => show(item) },
		h('span', { class: `sign ${item.status}`, 'aria-hidden': 'true' }, item.status === 'running' ? '○' : item.status === 'done' ? '●' : '✗'),
		h('span', null, visible(String(item.input.description ?? item.input.subagent_type ?? 'Agent'))), h('span', { class: 'hidden' }, ` (${item.status})`)),
	nested(item).length > 0 && h('ul', null, nested(item).map(line)));
	const roots = agents.filter((item) => !item.parent);
	return h('ul', { class: 'agents' }, roots.map(line));
}

export { count, modeName };
