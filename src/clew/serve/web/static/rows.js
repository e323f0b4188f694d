// One row for each thing that happened in a session, as on the terminal. The sign in the gutter says
// who speaks; color never carries a meaning alone.

import { count, h, icon, money, put, shortPath, span, tokens, visible } from './dom.js';
import { colored, countChange, drawChange, folded, languageOf, printed } from './code.js';
import { markdown } from './markdown.js';
import { describeGroup } from './transcript.js';

const SIGNS = { done: '●', running: '○', waiting: '○', failed: '✗', denied: '✗' };
const STATES = { done: 'done', running: 'running', waiting: 'waiting for an answer', failed: 'failed', denied: 'not run' };
const IMAGES = new Set(['image/png', 'image/jpeg', 'image/gif', 'image/webp']);

export class Rows {
	/** `act` has the functions that rows call: `cwd`, `me`, `isAsked`, `opened`, `menu`. */
	constructor(act) {
		this.act = act;
	}

	draw(item) {
		const element = this[item.kind](item);
		element.dataset.key = item.key;
		element.classList.add('row');
		return element;
	}

	frame(name, sign, ...content) {
		return h('div', { class: name }, h('span', { class: 'gutter', 'aria-hidden': 'true' }, sign), h('div', { class: 'body' }, content));
	}

	prompt(item) {
		const state = { sent: 'Waiting for the machine', received: 'Received', waiting: 'Not sent yet', failed: item.why }[item.status];
		const menu = item.id && this.act.menu?.(item);
		const by = item.by !== this.act.me() && item.by;
		return h('article', { class: 'prompt', 'aria-label': `Prompt${by ? ` by ${by}` : ''}`, tabindex: '-1' },
			h('span', { class: 'gutter', 'aria-hidden': 'true' }, '>'),
			h('div', { class: 'body' },
				item.text && h('div', { class: 'typed', dir: 'auto' }, visible(item.text)),
				item.media?.map(drawMedia),
				(state || by) && h('div', { class: `under ${item.status === 'failed' ? 'bad' : ''}` }, [by, state].filter(Boolean).join(' · '))),
			menu);
	}

	text(item) {
		return this.frame('said', '', put(h('div', { class: 'prose' }), markdown(item.text)), item.isAborted && h('p', { class: 'under' }, 'Cut off'));
	}

	thinking(item) {
		return this.frame('thinking', '', this.details(item, 'Thinking', () => put(h('div', { class: 'prose quiet' }), markdown(item.text))));
	}

	aside(item) {
		return this.frame('aside', '', this.details(item, item.name, () => h('pre', { class: 'out', tabindex: '0', dir: 'auto' }, visible(item.text))));
	}

	notice(item) {
		return this.frame(`notice ${item.level}`, item.level === 'quiet' ? '' : '!', h('p', { dir: 'auto' }, visible(item.text)));
	}

	boundary(item) {
		const size = item.before ? ` · ${tokens(item.before)} tokens${item.after ? ` became ${tokens(item.after)}` : ''}` : '';
		return h('div', { class: 'boundary', role: 'separator' }, h('span', null, `Compacted${size}`));
	}

	turn(item) {
		const used = item.usage ?? {};
		const words = [
			item.ms != null && span(item.ms),
			used.output_tokens != null && `${tokens((used.input_tokens ?? 0) + (used.cache_read_input_tokens ?? 0) + (used.cache_creation_input_tokens ?? 0))} in, ${tokens(used.output_tokens)} out`,
			typeof item.usd === 'number' && item.usd > 0 && money(item.usd),
		].filter(Boolean);
		return h('div', { class: 'turn' }, h('span', null, words.join(' · ')));
	}

	group(item) {
		const isRunning = item.tools.some((tool) => tool.status === 'running');
		const failed = item.tools.filter((tool) => tool.status === 'failed' || tool.status === 'denied').length;
		const state = isRunning ? 'running' : failed === item.tools.length ? 'failed' : 'done';
		if (item.tools.length === 1) return this.tool(item.tools[0]);
		const body = () => h('ul', { class: 'steps' }, item.tools.map((tool) => h('li', null, this.tool(tool))));
		return this.frame(`tool ${state}`, SIGNS[state], this.details(item, [h('span', { class: 'what' }, describeGroup(item.tools)), failed > 0 && h('span', { class: 'bad' }, ` · ${failed} failed`), hiddenState(state)], body));
	}

	tool(item) {
		const state = item.status === 'running' && this.act.isAsked(item.id) ? 'waiting' : item.status;
		const { head, body, isOpen } = this.describe(item);
		const answer = item.answer && { allowed: 'Allowed', denied: 'Denied', withdrawn: 'Withdrawn' }[item.answer.how];
		const line = [head, hiddenState(state), answer && item.answer.by && h('span', { class: 'by' }, `${answer} by ${item.answer.by}`)];
		// The question's card shows the call until it is answered.
		const element = body && state !== 'waiting'
			? isOpen ? [h('div', { class: 'head' }, line), body()] : this.details(item, line, body)
			: h('div', { class: 'head' }, line);
		return this.frame(`tool ${state}`, SIGNS[state], element);
	}

	/** Return a disclosure whose content is built when it is opened. */
	details(item, summary, body) {
		const element = h('details', null, h('summary', null, summary, h('span', { class: 'chevron', 'aria-hidden': 'true' }, icon('right'))));
		const fill = () => {
			if (element.open && element.childElementCount === 1) element.append(h('div', { class: 'inside' }, body()));
			item.isOpen = element.open;
		};
		element.addEventListener('toggle', () => {
			fill();
			this.act.opened?.();
		});
		if (item.isOpen) {
			element.open = true;
			fill();
		}
		return element;
	}

	output(item, { lines = 10, language = '' } = {}) {
		const images = (item.images ?? []).map(drawMedia);
		if (!item.result?.trim()) return images.length ? h('div', null, images) : null;
		const draw = language ? (text) => colored(visible(text), language) : printed;
		return h('div', { class: item.status === 'failed' || item.status === 'denied' ? 'bad' : null }, folded(item.result, draw, { lines }), images);
	}

	describe(item) {
		const { name, input } = item;
		const cwd = this.act.cwd();
		const label = (words, detail, more) => [h('span', { class: 'what' }, words), detail && h('span', { class: 'detail', dir: 'ltr' }, visible(detail)), more];
		const path = shortPath(input.file_path ?? input.path ?? input.notebook_path ?? '', cwd);
		const isBad = item.status === 'failed' || item.status === 'denied';
		const failure = isBad ? () => this.output(item) : null;
		switch (name) {
			case 'Bash': case 'PowerShell':
				return {
					head: label('', null, h('code', { class: 'command', dir: 'ltr' }, visible(firstLine(input.command)))),
					isOpen: true,
					body: () => put(h('div', null), String(input.command ?? '').includes('\n') && h('pre', { class: 'out', tabindex: '0', dir: 'ltr' }, colored(visible(String(input.command)), 'bash')), this.output(item, { lines: 8 })),
				};
			case 'Edit': case 'MultiEdit': {
				const edits = name === 'Edit' ? [input] : input.edits ?? [];
				const counted = edits.map((edit) => countChange(String(edit.old_string ?? ''), String(edit.new_string ?? '')));
				const [more, less] = [0, 1].map((i) => counted.reduce((sum, one) => sum + one[i], 0));
				return {
					head: label('Edit', path, !isBad && changeCount(more, less)),
					isOpen: true,
					body: () => (isBad ? this.output(item) : h('div', null, drawEdits(item, edits))),
				};
			}
			case 'Write': {
				const text = String(input.content ?? '');
				const was = item.about?.originalFile;
				return {
					head: label('Write', path, typeof was === 'string' ? changeCount(...countChange(was, text)) : h('span', { class: 'count' }, count(text.split('\n').length, 'line'))),
					isOpen: true,
					body: () => (isBad ? this.output(item) : typeof was === 'string' ? drawChange(was, text, { numbered: true }) : folded(text, (part) => colored(visible(part), languageOf(path)), { label: path })),
				};
			}
			case 'Read':
				return { head: label('Read', path), body: failure ?? (() => this.output(item, { language: languageOf(path) })) };
			case 'Grep': case 'Glob':
				return { head: label(name === 'Grep' ? 'Search' : 'Match', `${input.pattern ?? ''}${input.path ? `  in ${path}` : ''}`), body: failure ?? (() => this.output(item)) };
			case 'LS':
				return { head: label('List', path), body: failure ?? (() => this.output(item)) };
			case 'WebFetch': return { head: label('Fetch', input.url), body: () => this.output(item) };
			case 'WebSearch': return { head: label('Search the web', input.query), body: () => this.output(item) };
			case 'Task': case 'Agent': return this.agent(item);
			case 'ExitPlanMode':
				return { head: label('Plan', ''), isOpen: true, body: () => put(h('div', { class: 'plan prose' }), markdown(String(input.plan ?? item.about?.plan ?? ''))) };
			case 'AskUserQuestion': return { head: label('Question', ''), isOpen: true, body: () => drawAnswers(input, item) };
			default:
				return {
					head: label(name.startsWith('mcp__') ? name.slice(5).replace('__', ' · ') : name, summarize(input)),
					body: () => put(h('div', null), drawInput(input), this.output(item)),
				};
		}
	}

	agent(item) {
		const used = item.task?.usage ?? {};
		const facts = [used.tool_uses && count(used.tool_uses, 'call'), used.total_tokens && `${tokens(used.total_tokens)} tokens`, used.duration_ms && span(used.duration_ms)].filter(Boolean).join(' · ');
		const kind = item.input.subagent_type;
		return {
			head: [h('span', { class: 'what' }, 'Agent'), kind && h('span', { class: 'tag' }, kind), h('span', { class: 'detail' }, visible(String(item.input.description ?? ''))), facts && h('span', { class: 'count' }, facts)],
			body: () => h('div', { class: 'agent' },
				h('div', { class: 'typed quiet', dir: 'auto' }, visible(String(item.input.prompt ?? ''))),
				(item.children ?? []).map((child) => this.draw(child)),
				item.result && put(h('div', { class: 'prose' }), markdown(item.result))),
		};
	}
}

function hiddenState(state) {
	return h('span', { class: 'hidden' }, ` (${STATES[state] ?? state})`);
}

function firstLine(text) {
	const [first, ...rest] = String(text ?? '').split('\n');
	return rest.length ? `${first} …` : first;
}

export function changeCount(more, less) {
	return h('span', { class: 'count' }, more > 0 && h('span', { class: 'more-lines' }, `+${more}`), ' ', less > 0 && h('span', { class: 'less-lines' }, `−${less}`));
}

function drawEdits(item, edits) {
	const hunks = item.about?.structuredPatch;
	if (Array.isArray(hunks) && hunks.length && hunks.every((hunk) => Array.isArray(hunk.lines))) {
		return hunks.map((hunk) => {
			const side = (sign) => hunk.lines.filter((line) => line[0] === sign || line[0] === ' ').map((line) => line.slice(1)).join('\n');
			return drawChange(side('-'), side('+'), { first: hunk.newStart ?? 1, numbered: true });
		});
	}
	return edits.map((edit) => drawChange(String(edit.old_string ?? ''), String(edit.new_string ?? '')));
}

function summarize(input) {
	const text = Object.values(input ?? {}).find((value) => typeof value === 'string') ?? '';
	return firstLine(text).slice(0, 160);
}

/** Return the members of an input, each with its complete value. */
export function drawInput(input) {
	const entries = Object.entries(input ?? {});
	if (!entries.length) return null;
	return h('dl', { class: 'input' }, entries.map(([name, value]) => [
		h('dt', null, visible(name)), h('dd', { dir: 'auto' }, visible(typeof value === 'string' ? value : JSON.stringify(value, null, 2)))]));
}

function drawAnswers(input, item) {
	const answers = item.about?.answers ?? {};
	return h('div', null, (input.questions ?? []).map((question) => h('div', { class: 'asked' },
		h('p', { dir: 'auto' }, visible(String(question.question ?? ''))),
		answers[question.question] && h('p', { class: 'answered', dir: 'auto' }, icon('check'), visible(String(answers[question.question]))))),
	item.status === 'failed' || item.status === 'denied' ? h('p', { class: 'bad' }, visible(item.result ?? '')) : null);
}

/** Return an image, or the name of what can't be shown. */
export function drawMedia(block) {
	const source = block.source ?? {};
	if (block.type === 'image' && IMAGES.has(source.media_type) && /^[A-Za-z0-9+/=\s]+$/.test(source.data ?? '')) {
		return h('img', { class: 'media', alt: block.title ?? 'Image', src: `data:${source.media_type};base64,${source.data}`, loading: 'lazy' });
	}
	return h('p', { class: 'under' }, block.title ?? (block.type === 'image' ? 'Image' : 'File'));
}
