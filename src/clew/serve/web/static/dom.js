// Builds the document from elements and text, never from markup.

const SVG = 'http://www.w3.org/2000/svg';

/** Return an element. `props` are attributes; `on...` are listeners; false and null are skipped. */
export function h(tag, props, ...children) {
	const element = document.createElement(tag);
	for (const [name, value] of Object.entries(props ?? {})) {
		if (value === false || value == null) continue;
		if (name.startsWith('on')) element.addEventListener(name.slice(2), value);
		else if (name === 'value' || name === 'checked' || name === 'disabled') element[name] = value;
		else element.setAttribute(name, value === true ? '' : value);
	}
	put(element, ...children);
	return element;
}

/** Append children: elements, text, or lists of both. */
export function put(element, ...children) {
	for (const child of children.flat(3)) {
		if (child != null && child !== false) element.append(child);
	}
	return element;
}

export function refill(element, ...children) {
	element.replaceChildren();
	return put(element, ...children);
}

const ICONS = {
	back: 'M15 5l-7 7 7 7',
	send: 'M12 19V5M6 11l6-6 6 6',
	stop: 'M7 7h10v10H7z',
	clip: 'M8 12.5l6-6a3 3 0 014.2 4.2l-8 8a5 5 0 01-7-7l7.3-7.3',
	panel: 'M4 5h16v14H4zM14.5 5v14',
	search: 'M11 18a7 7 0 100-14 7 7 0 000 14zM16 16l4.5 4.5',
	check: 'M5 12.5l4.5 4.5L19 7.5',
	close: 'M6 6l12 12M18 6L6 18',
	down: 'M6 9l6 6 6-6',
	right: 'M9 6l6 6-6 6',
	copy: 'M9 9h10v10H9zM5 15V5h10',
	share: 'M12 15V4M8 8l4-4 4 4M5 13v7h14v-7',
	branch: 'M7 4v10M7 14a3 3 0 100 6 3 3 0 000-6zM17 4a3 3 0 100 6 3 3 0 000-6zM17 10c0 5-7 3-9 6',
	more: 'M5 12h.01M12 12h.01M19 12h.01',
	plus: 'M12 5v14M5 12h14',
	sun: 'M12 16a4 4 0 100-8 4 4 0 000 8zM12 3v2M12 19v2M3 12h2M19 12h2M5.6 5.6L7 7M17 17l1.4 1.4M5.6 18.4L7 17M17 7l1.4-1.4',
	undo: 'M9 8H15a5 5 0 010 10H8M9 8l4-4M9 8l4 4',
};

export function icon(name) {
	const svg = document.createElementNS(SVG, 'svg');
	svg.setAttribute('viewBox', '0 0 24 24');
	svg.setAttribute('class', 'icon');
	svg.setAttribute('aria-hidden', 'true');
	const path = document.createElementNS(SVG, 'path');
	path.setAttribute('d', ICONS[name]);
	svg.append(path);
	return svg;
}

/** Return a button with an icon only; its label is for tooltips and screen readers. */
export function iconButton(name, label, onclick, more = {}) {
	return h('button', { type: 'button', class: 'icon-button', 'aria-label': label, title: label, onclick, ...more }, icon(name));
}

export function say(words) {
	const place = document.getElementById('said');
	if (place) place.textContent = words;
}

/** Return a time span in words: "12 s", "4 min", "3 h", "2 d". */
export function span(ms) {
	const s = Math.max(0, Math.round(ms / 1000));
	if (s < 60) return `${s} s`;
	if (s < 3600) return `${Math.floor(s / 60)} min`;
	if (s < 86400) return `${Math.floor(s / 3600)} h`;
	return `${Math.floor(s / 86400)} d`;
}

export function count(number, word, words = `${word}s`) {
	return `${number.toLocaleString('en')} ${number === 1 ? word : words}`;
}

export function tokens(number) {
	if (number < 1000) return String(number);
	return number < 1e6 ? `${(number / 1000).toFixed(number < 10000 ? 1 : 0)}k` : `${(number / 1e6).toFixed(1)}M`;
}

export function money(usd) {
	return `$${usd < 0.1 ? usd.toFixed(3) : usd.toFixed(2)}`;
}

// Characters that reorder or hide text are shown as code points.
// eslint-disable-next-line no-control-regex
const HIDDEN = /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u200b\u200e\u200f\u202a-\u202e\u2060-\u2069\ufeff]/g;

/** Return a text with invisible characters replaced by their code points. */
export function visible(text) {
	return text.replace(HIDDEN, (c) => `⟨U+${c.codePointAt(0).toString(16).toUpperCase().padStart(4, '0')}⟩`);
}

/** Return a path as the terminal shows it: relative to the folder of the session. */
export function shortPath(path, cwd) {
	const text = String(path ?? '');
	return cwd && text.startsWith(`${cwd}/`) ? text.slice(cwd.length + 1) : text;
}
