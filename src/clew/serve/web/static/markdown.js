// Converts Markdown to elements. Links may only be web or mail addresses; images become links.

import { h, put, iconButton, say } from './dom.js';
import { colored } from './code.js';

const FENCE = /^( {0,3})(`{3,}|~{3,})\s*([^`]*)$/;
const HEADING = /^ {0,3}(#{1,6})\s+(.*?)\s*#*\s*$/;
const RULE = /^ {0,3}([-*_])(?:\s*\1){2,}\s*$/;
const ITEM = /^(\s*)([-*+]|\d{1,9}[.)])(\s+|$)(.*)$/;
const TABLE = /^\s*\|?\s*:?-+:?\s*(\|\s*:?-+:?\s*)*\|?\s*$/;

/** Return the elements of a text in Markdown. */
export function markdown(text) {
	return blocks(text.replace(/\r\n?/g, '\n').split('\n'));
}

function blocks(lines) {
	const out = [];
	for (let at = 0; at < lines.length;) {
		const line = lines[at];
		let found;
		if (!line.trim()) {
			at++;
		} else if ((found = FENCE.exec(line))) {
			const [, indent, fence, info] = found;
			const body = [];
			const end = new RegExp(`^ {0,3}${fence[0] === '`' ? '`' : '~'}{${fence.length},}\\s*$`);
			for (at++; at < lines.length && !end.test(lines[at]); at++) body.push(lines[at].replace(new RegExp(`^ {0,${indent.length}}`), ''));
			at++;
			out.push(codeBlock(body.join('\n'), info.trim()));
		} else if ((found = HEADING.exec(line))) {
			out.push(put(h(`h${Math.min(6, found[1].length + 2)}`, { dir: 'auto' }), inline(found[2])));
			at++;
		} else if (RULE.test(line)) {
			out.push(h('hr'));
			at++;
		} else if (/^ {0,3}>/.test(line)) {
			const body = [];
			for (; at < lines.length && (/^ {0,3}>/.test(lines[at]) || (lines[at].trim() && body.length && !starts(lines[at]))); at++) body.push(lines[at].replace(/^ {0,3}> ?/, ''));
			out.push(put(h('blockquote'), blocks(body)));
		} else if (ITEM.test(line)) {
			at = list(lines, at, out);
		} else if (line.includes('|') && TABLE.test(lines[at + 1] ?? '')) {
			at = table(lines, at, out);
		} else {
			const body = [];
			for (; at < lines.length && lines[at].trim() && !(body.length && starts(lines[at])); at++) body.push(lines[at].trimStart());
			out.push(put(h('p', { dir: 'auto' }), inline(body.join('\n'))));
		}
	}
	return out;
}

function starts(line) {
	return FENCE.test(line) || HEADING.test(line) || RULE.test(line) || /^ {0,3}>/.test(line) || /^ {0,3}([-*+]|1[.)])\s+\S/.test(line);
}

function list(lines, at, out) {
	const first = ITEM.exec(lines[at]);
	const isOrdered = /\d/.test(first[2]);
	const element = h(isOrdered ? 'ol' : 'ul', { start: isOrdered && parseInt(first[2], 10) !== 1 ? parseInt(first[2], 10) : null });
	const base = first[1].length;
	while (at < lines.length) {
		const found = ITEM.exec(lines[at]);
		if (!found || found[1].length > base + 3 || found[1].length < base || /\d/.test(found[2]) !== isOrdered || RULE.test(lines[at])) break;
		const indent = found[1].length + found[2].length + Math.max(1, Math.min(4, found[3].length));
		const body = [found[4]];
		for (at++; at < lines.length; at++) {
			const line = lines[at];
			const depth = line.length - line.trimStart().length;
			if (!line.trim()) {
				const next = lines.slice(at).find((rest) => rest.trim());
				if (next === undefined || next.length - next.trimStart().length < Math.min(indent, base + 2)) break;
				body.push('');
			} else if (depth >= Math.min(indent, base + 2)) body.push(line.slice(Math.min(depth, indent)));
			else if (ITEM.test(line) || starts(line)) break;
			else body.push(line);
		}
		while (at < lines.length && !lines[at].trim() && ITEM.test(lines[at + 1] ?? '')) at++;
		const item = h('li', { dir: 'auto' });
		const task = /^\[([ xX])\]\s+/.exec(body[0]);
		if (task) {
			body[0] = body[0].slice(task[0].length);
			item.className = 'task';
			item.append(h('span', { class: task[1] === ' ' ? 'box' : 'box done', role: 'img', 'aria-label': task[1] === ' ' ? 'not done' : 'done' }));
		}
		const inner = blocks(body);
		if (inner[0]?.tagName === 'P' && !body.slice(1).some((line, i) => !line.trim() && body[i + 2])) {
			put(item, [...inner[0].childNodes], inner.slice(1));
		} else put(item, inner);
		element.append(item);
	}
	out.push(element);
	return at;
}

function cells(line) {
	return line.trim().replace(/^\|/, '').replace(/\|$/, '').split(/(?<!\\)\|/).map((cell) => cell.trim().replace(/\\\|/g, '|'));
}

function table(lines, at, out) {
	const sides = cells(lines[at + 1]).map((cell) => (/^:.*:$/.test(cell) ? 'center' : /:$/.test(cell) ? 'right' : ''));
	const row = (line, tag) => put(h('tr'), cells(line).slice(0, sides.length).map((cell, i) => put(h(tag, { class: sides[i] || null, dir: 'auto', scope: tag === 'th' ? 'col' : null }), inline(cell))));
	const body = h('tbody');
	const head = h('thead', null, row(lines[at], 'th'));
	for (at += 2; at < lines.length && lines[at].includes('|') && lines[at].trim(); at++) body.append(row(lines[at], 'td'));
	out.push(h('div', { class: 'table', tabindex: '0', role: 'group', 'aria-label': 'Table' }, h('table', null, head, body)));
	return at;
}

/** Return a block of code with its language and a button that copies it. */
export function codeBlock(text, info) {
	const language = info.split(/\s/)[0];
	const copy = iconButton('copy', 'Copy', async () => {
		try {
			await navigator.clipboard.writeText(text);
			say('Copied');
			copy.classList.add('done');
			setTimeout(() => copy.classList.remove('done'), 1200);
		} catch {
			say('The browser did not allow copying.');
		}
	});
	return h('figure', { class: 'code' },
		h('figcaption', null, h('span', null, language || 'text'), copy),
		h('pre', { tabindex: '0', dir: 'ltr', 'aria-label': `Code${language ? `, ${language}` : ''}` }, h('code', null, colored(text, language))));
}

// -- inline text

const INLINE = /(`+)([\s\S]*?[^`])\1(?!`)|!?\[((?:[^[\]]|\[[^[\]]*\])*)\]\(\s*<?([^()\s<>]*(?:\([^()\s]*\)[^()\s<>]*)*)>?(?:\s+"[^"]*")?\s*\)|<((?:https?:\/\/|mailto:)[^>\s]+)>|(\*\*|__)(?=\S)([\s\S]*?\S)\6(?![\p{L}\p{N}_*])|(?<![\p{L}\p{N}])(\*|_)(?=[^\s*_])([\s\S]*?[^\s*_])\8(?![\p{L}\p{N}])|~~(?=\S)([\s\S]*?\S)~~|(https?:\/\/[^\s<>()[\]`"']*[^\s<>()[\]`"'.,;:!?])|\\([\\`*_{}[\]()#+\-.!|<>~])|( {2,}\n|\\\n)/gu;
const SAFE = /^(https?:\/\/|mailto:)/i;

function inline(text, depth = 0) {
	const out = [];
	let last = 0;
	const more = (part) => (depth > 8 ? [part] : inline(part, depth + 1));
	for (const found of text.matchAll(INLINE)) {
		if (found.index > last) out.push(text.slice(last, found.index));
		last = found.index + found[0].length;
		const [all, , code, label, target, angle, , strong, , emphasis, struck, bare, escaped, breaks] = found;
		if (code !== undefined) out.push(h('code', { dir: 'ltr' }, code.trim() || code));
		else if (label !== undefined) out.push(link(target, label ? more(label) : [target], all));
		else if (angle) out.push(link(angle, [angle], all));
		else if (strong) out.push(put(h('strong'), more(strong)));
		else if (emphasis) out.push(put(h('em'), more(emphasis)));
		else if (struck) out.push(put(h('s'), more(struck)));
		else if (bare) out.push(link(bare, [bare], all));
		else if (escaped) out.push(escaped);
		else if (breaks) out.push(h('br'));
	}
	if (last < text.length) out.push(text.slice(last));
	return out;
}

function link(target, label, all) {
	if (!SAFE.test(target)) return all;
	return put(h('a', { href: target, target: '_blank', rel: 'noopener noreferrer' }), label);
}

// -- streaming text

const SETTLED = 8;

/** An element that shows a streaming text. Parts that can no longer change are drawn only once. */
export class GrowingText {
	constructor() {
		this.element = h('div', { class: 'prose' });
		this.tail = h('div', { class: 'growing' });
		this.element.append(this.tail);
		this.rest = '';
	}

	add(text) {
		this.rest += text;
	}

	draw() {
		const cut = findCut(this.rest);
		if (cut > 0) {
			// Boxes of a few blocks; the browser lays out only the visible boxes.
			for (const element of markdown(this.rest.slice(0, cut))) {
				if (!this.box || this.box.childElementCount >= SETTLED) {
					this.box = h('div', { class: 'settled' });
					this.tail.before(this.box);
				}
				this.box.append(element);
			}
			this.rest = this.rest.slice(cut);
		}
		this.tail.replaceChildren(...markdown(this.rest.length > 20_000 ? `… ${this.rest.slice(-20_000)}` : this.rest));
	}
}

/** Return the end of the text that can't change: the last empty line outside code. */
function findCut(text) {
	let cut = 0, at = 0, fence = '';
	for (const line of text.split('\n')) {
		const next = at + line.length + 1;
		const found = /^ {0,3}(`{3,}|~{3,})/.exec(line);
		if (found && !fence) fence = found[1];
		else if (fence && line.trim().startsWith(fence) && !line.trim().replace(/[`~]/g, '')) fence = '';
		else if (!fence && !line.trim() && /^[^\s>|\-*+\d]/.test(text[next] ?? '')) cut = next;
		at = next;
	}
	return cut;
}
