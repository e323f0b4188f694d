// Draws syntax-colored code, word-level diffs, and program output with its colors. Text only.

import { h, put, visible } from './dom.js';

const WORDS = (text) => new Set(text.split(' '));
const C_LIKE = WORDS('async await break case catch class const continue default defer delete do else enum export extends final finally fn for from func function go if impl implements import in instanceof interface let loop match mod mut namespace new null nil of package private protected pub public return self static struct super switch this throw throws trait true false try type typeof unsafe use using var void when where while with yield int float double bool boolean char long string byte any undefined');
const PYTHON = WORDS('and as assert async await break case class continue def del elif else except False finally for from global if import in is lambda match None nonlocal not or pass raise return True try while with yield self');
const SHELL = WORDS('if then else elif fi for in do done while until case esac function return export local set unset exit cd echo source alias');
const SQL = WORDS('select from where and or not insert into values update set delete create table index join left right inner outer on group by order limit offset as distinct having union all null is in like exists case when then else end primary key references default');

const LANGUAGES = {
	python: [PYTHON, '#'], py: [PYTHON, '#'], bash: [SHELL, '#'], sh: [SHELL, '#'], shell: [SHELL, '#'], zsh: [SHELL, '#'],
	console: [SHELL, '#'], yaml: [WORDS('true false null yes no'), '#'], yml: [WORDS('true false null'), '#'], toml: [WORDS('true false'), '#'],
	sql: [SQL, '--'],
	json: [WORDS('true false null'), ''], css: [WORDS('important media import supports'), ''], html: [WORDS(''), ''], xml: [WORDS(''), ''],
	dockerfile: [WORDS('FROM RUN CMD COPY ADD ENV ARG WORKDIR EXPOSE ENTRYPOINT USER VOLUME AS'), '#'], make: [WORDS('ifeq else endif include'), '#'], makefile: [WORDS(''), '#'],
	text: [WORDS(''), ''], txt: [WORDS(''), ''], md: [WORDS(''), ''], markdown: [WORDS(''), ''], '': [WORDS(''), ''],
};
const EXTENSIONS = { js: 'js', mjs: 'js', ts: 'ts', tsx: 'ts', jsx: 'js', rs: 'rust', go: 'go', c: 'c', h: 'c', cpp: 'cpp', java: 'java', kt: 'kotlin', swift: 'swift', cs: 'cs', php: 'php', scala: 'scala' };
const MOST_COLORED = 60_000;

export function languageOf(path) {
	const name = String(path).split('/').pop().toLowerCase();
	const end = name.includes('.') ? name.split('.').pop() : name;
	return end in LANGUAGES || end in EXTENSIONS ? end : '';
}

const TOKEN = /("""[\s\S]*?(?:"""|$)|'''[\s\S]*?(?:'''|$)|"(?:\\.|[^"\\\n])*"?|'(?:\\.|[^'\\\n])*'?|`(?:\\.|[^`\\])*`?)|(\/\*[\s\S]*?(?:\*\/|$)|<!--[\s\S]*?(?:-->|$))|(\/\/[^\n]*|--[^\n]*|#[^\n]*)|(\b\d[\d_.xXa-fA-FeE]*\b)|([A-Za-z_$][\w$]*)|(\s+|[^\s\w])/g;

/** Return code as colored spans. */
export function colored(text, language) {
	const kind = String(language ?? '').toLowerCase().split(/[\s,{]/)[0];
	const [words, comment] = LANGUAGES[kind] ?? (kind in EXTENSIONS || /^[a-z+#]+$/.test(kind) ? [C_LIKE, '//'] : [WORDS(''), '']);
	const out = document.createDocumentFragment();
	if (text.length > MOST_COLORED || kind === '' || kind === 'text' || kind === 'txt') {
		out.append(text);
		return out;
	}
	if (kind === 'diff' || kind === 'patch') return coloredDiff(text);
	let plain = '';
	const flush = () => {
		if (plain) out.append(plain);
		plain = '';
	};
	const mark = (name, part) => {
		flush();
		out.append(h('span', { class: `c-${name}` }, part));
	};
	TOKEN.lastIndex = 0;
	let found;
	while ((found = TOKEN.exec(text))) {
		const [all, string, block, line, number, word] = found;
		if (string) mark(kind === 'json' && /^\s*:/.test(text.slice(TOKEN.lastIndex, TOKEN.lastIndex + 4)) ? 'name' : 'string', all);
		else if (block) mark('comment', all);
		else if (line) {
			if (comment && line.startsWith(comment)) mark('comment', all);
			else {
				plain += all[0];
				TOKEN.lastIndex = found.index + 1;
			}
		} else if (number) mark('number', all);
		else if (word) {
			if (words.has(word) || (words === SQL && words.has(word.toLowerCase()))) mark('keyword', all);
			else if (text[TOKEN.lastIndex] === '(') mark('name', all);
			else if (/^[A-Z][a-z]\w*$/.test(word) && words !== SHELL) mark('type', all);
			else if ((kind === 'yaml' || kind === 'yml' || kind === 'toml') && /^\s*[:=]/.test(text.slice(TOKEN.lastIndex, TOKEN.lastIndex + 3))) mark('name', all);
			else plain += all;
		} else plain += all;
	}
	flush();
	return out;
}

function coloredDiff(text) {
	const out = document.createDocumentFragment();
	for (const line of text.split(/(?<=\n)/)) {
		const kind = line.startsWith('@@') ? 'comment' : /^[+-]{3} /.test(line) ? 'name' : line[0] === '+' ? 'added' : line[0] === '-' ? 'removed' : '';
		out.append(kind ? h('span', { class: `c-${kind}` }, line) : line);
	}
	return out;
}

// -- changes

const MOST_COMPARED = 2_000_000;

/** Return the edit steps from one list to another: `=`, `-` or `+`, and the item. */
export function compare(before, after) {
	let start = 0;
	while (start < before.length && start < after.length && before[start] === after[start]) start++;
	let end = 0;
	while (end < before.length - start && end < after.length - start && before.at(-1 - end) === after.at(-1 - end)) end++;
	const [a, b] = [before.slice(start, before.length - end), after.slice(start, after.length - end)];
	const steps = before.slice(0, start).map((item) => ['=', item]);
	if (a.length * b.length > MOST_COMPARED) {
		steps.push(...a.map((item) => ['-', item]), ...b.map((item) => ['+', item]));
	} else {
		const width = b.length + 1;
		const table = new Uint32Array((a.length + 1) * width);
		for (let i = a.length - 1; i >= 0; i--) {
			for (let j = b.length - 1; j >= 0; j--) {
				table[i * width + j] = a[i] === b[j] ? table[(i + 1) * width + j + 1] + 1 : Math.max(table[(i + 1) * width + j], table[i * width + j + 1]);
			}
		}
		let i = 0, j = 0;
		while (i < a.length && j < b.length) {
			if (a[i] === b[j]) { steps.push(['=', a[i]]); i++; j++; }
			else if (table[(i + 1) * width + j] >= table[i * width + j + 1]) steps.push(['-', a[i++]]);
			else steps.push(['+', b[j++]]);
		}
		while (i < a.length) steps.push(['-', a[i++]]);
		while (j < b.length) steps.push(['+', b[j++]]);
	}
	steps.push(...before.slice(before.length - end).map((item) => ['=', item]));
	return steps;
}

const CONTEXT = 3;

/** Return the rows of a diff, each a sign and spans in which changed words are marked. */
export function changedRows(before, after, first = 1) {
	const steps = compare(before.split('\n'), after.split('\n'));
	const rows = [];
	let old = first, now = first;
	for (let at = 0; at < steps.length;) {
		if (steps[at][0] === '=') {
			rows.push({ sign: ' ', old: old++, now: now++, parts: [[steps[at][1], false]] });
			at++;
			continue;
		}
		const gone = [], come = [];
		while (at < steps.length && steps[at][0] !== '=') (steps[at][0] === '-' ? gone : come).push(steps[at++][1]);
		const [left, right] = pairUp(gone, come);
		gone.forEach((line, i) => rows.push({ sign: '-', old: old++, parts: left[i] ?? [[line, false]] }));
		come.forEach((line, i) => rows.push({ sign: '+', now: now++, parts: right[i] ?? [[line, false]] }));
	}
	return rows;
}

const MOST_PAIRED = 60;

/** Pair removed lines with the added lines that replace them, and compare them by word. */
function pairUp(gone, come) {
	const [left, right] = [[], []];
	let from = 0;
	for (let i = 0; i < gone.length && gone.length + come.length <= MOST_PAIRED; i++) {
		let best = null;
		for (let j = from; j < come.length; j++) {
			const found = byWord(gone[i], come[j]);
			if (found && (!best || found.share > best.share)) best = { ...found, j };
		}
		if (best) {
			[left[i], right[best.j]] = best.sides;
			from = best.j + 1;
		}
	}
	return [left, right];
}

/** Return both sides of a changed line, or null for lines that have little in common. */
function byWord(before, after) {
	const cut = (text) => text.match(/\s+|[\p{L}\p{N}_]+|[^\s\p{L}\p{N}_]/gu) ?? [];
	const steps = compare(cut(before), cut(after));
	const same = steps.filter(([sign, word]) => sign === '=' && word.trim()).reduce((sum, [, word]) => sum + word.length, 0);
	const share = same / Math.max(1, before.trim().length, after.trim().length);
	if (share < 0.4) return null;
	const side = (sign) => {
		const parts = [];
		for (const [s, word] of steps) {
			if (s !== '=' && s !== sign) continue;
			const marked = s === sign;
			if (parts.length && parts.at(-1)[1] === marked) parts.at(-1)[0] += word;
			else parts.push([word, marked]);
		}
		return parts;
	};
	return { share, sides: [side('-'), side('+')] };
}

/** Return a diff as a table of lines, without unchanged lines far from changes. */
export function drawChange(before, after, { first = 1, numbered = false } = {}) {
	const rows = changedRows(before, after, first);
	const near = rows.map(() => false);
	rows.forEach((row, at) => {
		if (row.sign !== ' ') for (let i = Math.max(0, at - CONTEXT); i <= Math.min(rows.length - 1, at + CONTEXT); i++) near[i] = true;
	});
	const body = h('div', { class: 'diff', role: 'group', 'aria-label': 'Change', tabindex: '0', dir: 'ltr' });
	let skipped = 0;
	const skip = () => {
		if (skipped) body.append(h('div', { class: 'diff-skip' }, `${skipped} unchanged lines`));
		skipped = 0;
	};
	rows.forEach((row, at) => {
		if (!near[at]) { skipped++; return; }
		skip();
		const kind = row.sign === '+' ? 'add' : row.sign === '-' ? 'del' : 'same';
		body.append(h('div', { class: `diff-row ${kind}` },
			numbered && h('span', { class: 'diff-number' }, String(row.now ?? row.old ?? '')),
			h('span', { class: 'diff-sign' }, row.sign),
			h('span', { class: 'diff-text' }, row.parts.map(([text, marked]) => (marked ? h('b', null, visible(text)) : visible(text))))));
	});
	skip();
	return body;
}

export function countChange(before, after) {
	const rows = changedRows(before, after);
	return [rows.filter((row) => row.sign === '+').length, rows.filter((row) => row.sign === '-').length];
}

// -- the output of programs

// eslint-disable-next-line no-control-regex
const ESCAPE = /\u001b(?:\[([0-9;:?<=>]*)[ -/]*([@-~])|\][^\u0007\u001b]*(?:\u0007|\u001b\\)?|[PX^_][^\u001b]*(?:\u001b\\)?|[ -/]*[0-~])|\u009b[0-9;]*[@-~]/g;
const NAMES = ['black', 'red', 'green', 'yellow', 'blue', 'magenta', 'cyan', 'white'];

/** Return a program's output: colors become spans, other escapes are removed, and hidden characters become visible. */
export function printed(text) {
	const out = document.createDocumentFragment();
	let color = '', bold = false, dim = false, last = 0;
	const put_ = (part) => {
		const shown = visible(part.replace(/\r\n/g, '\n').replace(/^.*\r(?!\n)/gm, ''));
		if (!shown) return;
		const name = [color && `a-${color}`, bold && 'a-bold', dim && 'a-dim'].filter(Boolean).join(' ');
		out.append(name ? h('span', { class: name }, shown) : shown);
	};
	for (const found of text.matchAll(ESCAPE)) {
		put_(text.slice(last, found.index));
		last = found.index + found[0].length;
		if (found[2] !== 'm') continue;
		for (const code of (found[1] || '0').split(/[;:]/).map(Number)) {
			if (code === 0) [color, bold, dim] = ['', false, false];
			else if (code === 1) bold = true;
			else if (code === 2) dim = true;
			else if (code === 22) bold = dim = false;
			else if (code === 39) color = '';
			else if (code >= 30 && code <= 37) color = NAMES[code - 30];
			else if (code >= 90 && code <= 97) color = NAMES[code - 90];
		}
	}
	put_(text.slice(last));
	return out;
}

/** Return a block of output that shows only its first lines until it is expanded. */
export function folded(text, draw, { lines = 10, label = 'Output' } = {}) {
	const all = text.replace(/\n+$/, '');
	const rows = all.split('\n');
	const pre = h('pre', { class: 'out', tabindex: '0', 'aria-label': label, dir: 'ltr' });
	const isLong = rows.length > lines + 2 || all.length > 4000;
	const short = rows.slice(0, lines).join('\n').slice(0, 4000);
	put(pre, draw(isLong ? short : all));
	if (!isLong) return pre;
	const words = `Show all ${rows.length.toLocaleString('en')} lines`;
	const button = h('button', { type: 'button', class: 'more', 'aria-expanded': 'false' }, words);
	button.addEventListener('click', () => {
		const open = button.getAttribute('aria-expanded') !== 'true';
		pre.replaceChildren();
		put(pre, draw(open ? all : short));
		button.textContent = open ? 'Show less' : words;
		button.setAttribute('aria-expanded', String(open));
	});
	return h('div', null, pre, button);
}
