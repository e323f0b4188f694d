// The page: pairs this browser, lists the sessions and shows the open one.

import { h, icon, iconButton, put, refill, say, span, visible } from './dom.js';
import { ask, device, Link, loadDevice, openSessions, pair, Refusal, setDevice, useToken } from './net.js';
import { drawPromptMenu, drawSide, drawStart } from './local.js';
import { SessionView } from './session.js';
import { drawPushes, renewPushes, stopPushes } from './push.js';
import { drawShares, useLink } from './share.js';

const app = document.getElementById('app');
const page = { sessions: [], view: null, hits: null, more: {} };

// -- start

async function begin() {
	applyTheme(localStorage.getItem('theme') ?? '');
	await loadDevice();
	const given = new URLSearchParams(location.hash.slice(1));
	if (given.has('pair')) {
		// Keep the code out of the browser's history.
		history.replaceState(null, '', `${location.pathname}#${given.get('open') ?? ''}`);
		if (given.has('quiet') && device && (await isKnown())) return enter();
		if (await pairWith(given.get('pair'), { isQuiet: given.has('quiet') })) return enter();
		return undefined;
	}
	if (given.has('share')) {
		history.replaceState(null, '', `${location.pathname}#`);
		try {
			const session = await useLink(given.get('share'));
			history.replaceState(null, '', `#/s/${session}`);
		} catch (error) {
			return showPairing(error.status === 401 ? 'This link has expired or was revoked.' : error.message);
		}
	}
	if (!device) return showPairing();
	return enter();
}

async function isKnown() {
	try {
		return Boolean(await ask('GET', '/v1/web/me'));
	} catch (error) {
		return error.status !== 401;
	}
}

function registerWorker() {
	if (page.isRegistered || !navigator.serviceWorker || !window.isSecureContext) return;
	page.isRegistered = true;
	const policy = globalThis.trustedTypes?.createPolicy('clew', { createScriptURL: () => '/web/worker.js' });
	navigator.serviceWorker.register(policy ? policy.createScriptURL('') : '/web/worker.js', { scope: '/' }).catch(() => {});
	setTimeout(() => navigator.serviceWorker.controller?.postMessage('keep'), 10_000);
}

function applyTheme(theme) {
	if (theme) document.documentElement.dataset.theme = theme;
	else delete document.documentElement.dataset.theme;
	localStorage.setItem('theme', theme);
}

function nameThisBrowser() {
	const agent = navigator.userAgent;
	const kind = /iPhone/.test(agent) ? 'iPhone' : /iPad/.test(agent) ? 'iPad' : /Android/.test(agent) ? 'Android phone' : /Mac/.test(agent) ? 'Mac' : /Windows/.test(agent) ? 'Windows' : 'Linux';
	const browser = /Firefox/.test(agent) ? 'Firefox' : /Edg\//.test(agent) ? 'Edge' : /Chrome/.test(agent) ? 'Chrome' : /Safari/.test(agent) ? 'Safari' : 'browser';
	return `${browser} on ${kind}`;
}

// -- pairing

async function pairWith(code, { name = nameThisBrowser(), isQuiet = false } = {}) {
	const status = h('p', { class: 'quiet', role: 'status' }, 'Pairing …');
	const abort = new AbortController();
	refill(app, h('main', { class: 'welcome', id: 'main' }, mark(), h('h1', null, isQuiet ? 'Opening …' : 'Confirm on the other machine'),
		h('p', null, isQuiet ? 'Pairing this browser with this machine.' : `The machine that printed the code asks whether to pair “${name}”. Type y there.`), status,
		h('button', { type: 'button', onclick: () => { abort.abort(); showPairing(); } }, 'Cancel')));
	try {
		await pair(code, name, () => { status.textContent = 'Waiting for confirmation …'; }, abort.signal);
		return true;
	} catch (error) {
		if (!abort.signal.aborted) showPairing(error.status === 404 ? 'The code was rejected, already used or older than two minutes. Run clew pair again.' : error.message);
		return false;
	}
}

function mark() {
	return h('img', { class: 'mark', src: '/web/icon.svg', alt: 'clew', width: '48', height: '48' });
}

function showPairing(problem = '') {
	registerWorker();
	document.title = 'Pair this browser · clew';
	const code = h('input', { type: 'text', id: 'code', autocomplete: 'off', autocapitalize: 'characters', spellcheck: 'false', placeholder: 'ABCD-EFGH-…', 'aria-describedby': 'problem' });
	const name = h('input', { type: 'text', id: 'name', value: nameThisBrowser(), autocomplete: 'off' });
	const words = h('p', { class: 'bad', id: 'problem', role: 'alert' }, problem);
	const submit = async (event) => {
		event.preventDefault();
		const text = code.value.trim();
		words.textContent = '';
		if (!text) {
			words.textContent = 'Enter the code that clew pair prints.';
			code.focus();
		} else if (text.replace(/[-\s]/g, '').length === 32 && /^[A-Za-z2-7\s-]+$/.test(text)) {
			if (await pairWith(text, { name: name.value.trim() || nameThisBrowser() })) enter();
		} else {
			try {
				await useToken(text);
				enter();
			} catch (error) {
				words.textContent = error.status === 401 ? 'This is neither a pairing code nor a valid token.' : error.message;
			}
		}
	};
	refill(app, h('main', { class: 'welcome', id: 'main' }, mark(), h('h1', null, 'Pair this browser'),
		h('p', null, 'On the machine that runs your sessions, run ', h('code', null, 'clew pair'), '. Then scan the QR code, or enter the code here.'),
		h('form', { onsubmit: submit },
			h('label', { for: 'code' }, 'Pairing code or device token'), code,
			h('label', { for: 'name' }, 'Name of this browser'), name, words,
			h('button', { class: 'primary' }, 'Pair'))));
	code.focus();
}

// -- the list

function enter() {
	page.list = h('div', { class: 'list', role: 'navigation', 'aria-label': 'Sessions' });
	page.place = h('div', { class: 'place' });
	page.search = h('input', { type: 'search', placeholder: 'Search all sessions', 'aria-label': 'Search all sessions', autocomplete: 'off', oninput: () => searchSoon() });
	page.results = h('div', { class: 'results' });
	put(page.list,
		h('div', { class: 'list-head' }, h('img', { src: '/web/icon.svg', alt: '', width: '22', height: '22' }), h('h1', { class: 'brand' }, 'clew'),
			h('span', { class: 'space' }), page.extra = h('span'), iconButton('sun', 'Switch between light and dark', () => switchTheme()), iconButton('more', 'This browser', () => showDevice())),
		h('div', { class: 'search' }, icon('search'), page.search), page.results);
	refill(app, page.list, page.place);
	addEventListener('hashchange', route);
	addEventListener('keydown', pressed);
	// What the user opens is requested and drawn first.
	route().then(offerActions);
}

/** Offer the actions that this server supports. */
async function offerActions() {
	registerWorker();
	const me = await ask('GET', '/v1/web/me').catch((error) => error);
	if (me instanceof Refusal) {
		if (me.isPassing) setTimeout(offerActions, 3000);
		return;
	}
	page.more.drawPromptMenu = (view, item) => drawPromptMenu(view, item, me.has_shelf);
	if (me.has_shelf) {
		page.more.drawSide = drawSide;
		page.hasShelf = true;
		page.extra.append(drawStart());
		drawList();
	} else page.more.drawSide = drawShares;
	page.view?.refresh();
	renewPushes();
}

function switchTheme() {
	const now = document.documentElement.dataset.theme ?? '';
	const next = { '': matchMedia('(prefers-color-scheme: dark)').matches ? 'light' : 'dark', dark: 'light', light: '' }[now];
	applyTheme(next);
	say(next ? `${next} colors` : 'System colors');
}

async function route() {
	const id = /^#\/s\/([0-9a-f-]{36})$/.exec(location.hash)?.[1];
	if (page.view?.id === id && id) return;
	page.view?.close();
	page.listLink?.close();
	page.view = null;
	page.listLink = null;
	app.classList.toggle('has-session', Boolean(id));
	// On a phone, the list fills the page.
	page.list.setAttribute('role', !id && matchMedia('(max-width: 48rem)').matches ? 'main' : 'navigation');
	if (id) {
		page.view = new SessionView(id, Object.assign(page.more, { listed, changed, leave: () => { location.hash = '#/'; }, refused }));
		refill(page.place, page.view.element);
		drawList();
		await page.view.open();
	} else {
		document.title = 'Sessions · clew';
		refill(page.place, h('main', { class: 'empty', id: 'main' }, mark(), h('p', null, 'Select a session'), h('p', { class: 'quiet' }, h('kbd', null, 'j'), ' ', h('kbd', null, 'k'), ' to move, ', h('kbd', null, '/'), ' to search')));
		page.listLink = new Link('', 0, {
			event: (name, value) => { if (name === 'sessions') listed(value); },
			state: (state, why) => { if (state === 'refused') refused(new Refusal(401, why)); drawList(); },
		});
	}
	// The stream of an open session sends the list, too.
	if (!page.sessions.length && !page.view?.stream) ask('GET', '/v1/web/sessions').then((found) => openSessions(found.data)).then(listed).catch(() => {});
	drawList();
}

function listed(sessions) {
	const before = waitingCount();
	page.sessions = sessions;
	const now = waitingCount();
	navigator.setAppBadge?.(now).catch(() => {});
	if (now > before && !page.view) say(`${now} waiting for your answer`);
	if (!page.view) document.title = `${now ? `(${now}) ` : ''}Sessions · clew`;
	drawList();
}

/** Update one session in the list; its event arrives before the next list does. */
function changed(session) {
	const at = page.sessions.findIndex((known) => known.session_id === session.session_id);
	if (at < 0) return;
	page.sessions[at] = { ...page.sessions[at], ...session };
	// Events can follow each other faster than frames.
	page.drawing ??= requestAnimationFrame(() => {
		page.drawing = null;
		drawList();
	});
}

function waitingCount() {
	return page.sessions.reduce((sum, session) => sum + (session.waiting ? 1 : 0), 0);
}

const GROUPS = [
	['Waiting for your answer', (s) => s.waiting > 0],
	['Working', (s) => s.connection_status === 'connected' && s.worker_status !== 'idle'],
	['Open', (s) => s.connection_status === 'connected'],
	['Earlier', () => true],
];

function drawList() {
	if (page.hits) return;
	const rest = new Set(page.sessions);
	const focus = document.activeElement?.closest?.('.entry')?.getAttribute('href');
	const groups = GROUPS.map(([title, fits]) => {
		const found = [...rest].filter(fits);
		for (const session of found) rest.delete(session);
		return found.length ? h('section', null, h('h2', null, title, h('span', { class: 'number' }, String(found.length))), h('ul', null, found.slice(0, 200).map((session) => h('li', null, drawEntry(session))))) : null;
	});
	const lost = page.listLink?.state === 'lost' ? h('p', { class: 'quiet note', role: 'status' }, `Updated ${span(page.listLink.ageMs)} ago, ${navigator.onLine ? 'reconnecting' : 'offline'}`) : null;
	refill(page.results, lost, groups, page.sessions.length === 0 && h('div', { class: 'nothing' }, h('p', null, 'No sessions yet.'), h('p', { class: 'quiet' }, page.hasShelf ? 'Start one with + above, or with clew in a terminal.' : ['Start one with ', h('code', null, 'clew --remote'), ' on the machine with your code.'])));
	if (focus) page.results.querySelector(`a[href="${focus}"]`)?.focus({ preventScroll: true });
}

function ago(at) {
	const ms = Date.now() - Date.parse(at);
	return ms < 60_000 ? 'now' : span(ms);
}

function drawEntry(session) {
	const cwd = session.config?.cwd ?? session.external_metadata?.cwd ?? '';
	const here = session.connection_status === 'connected';
	const state = session.waiting ? 'asks' : !here ? 'away' : session.worker_status === 'idle' ? 'idle' : 'busy';
	const words = { asks: 'waiting for your answer', away: 'not running', idle: 'ready', busy: 'working' }[state];
	const isOpen = page.view?.id === session.session_id;
	return h('a', { class: `entry ${state}`, href: `#/s/${session.session_id}`, 'aria-current': isOpen ? 'page' : null },
		h('span', { class: `dot ${state}`, role: 'img', 'aria-label': words }),
		h('span', { class: 'entry-title', dir: 'auto' }, visible(session.title || 'Session')),
		h('time', { datetime: session.updated_at }, ago(session.updated_at)),
		h('span', { class: 'entry-sub', dir: 'ltr' }, session.waiting ? h('code', null, visible(session.asks ?? '')) : visible(cwd.split('/').slice(-2).join('/')), session.waiting > 1 && h('span', { class: 'tag' }, String(session.waiting))));
}

// -- search

function searchSoon() {
	clearTimeout(page.searching);
	page.searching = setTimeout(search, 180);
}

async function search() {
	const words = page.search.value.trim();
	if (words.length < 2) {
		page.hits = null;
		drawList();
		return;
	}
	try {
		const found = await ask('GET', `/v1/web/search?q=${encodeURIComponent(words)}`);
		if (page.search.value.trim() !== words) return;
		page.hits = found.data;
		const titles = page.sessions.filter((s) => s.title.toLowerCase().includes(words.toLowerCase()));
		refill(page.results, h('p', { class: 'hidden', role: 'status' }, `${titles.length + page.hits.length} found`),
			titles.length > 0 && h('section', null, h('h2', null, 'Titles'), h('ul', null, titles.slice(0, 8).map((s) => h('li', null, drawEntry(s))))),
			h('section', null, h('h2', null, 'Messages', h('span', { class: 'number' }, String(page.hits.length))),
				page.hits.length ? h('ul', null, page.hits.map((hit) => h('li', null, h('a', { class: 'entry hit', href: `#/s/${hit.session_id}` },
					h('span', { class: 'entry-title', dir: 'auto' }, visible(hit.title || 'Session')), h('time', null, span(Date.now() - (hit.at_ms ?? Date.parse(hit.at)))), h('span', { class: 'entry-sub', dir: 'auto' }, marked(hit.snippet, words)))))) : h('p', { class: 'quiet note' }, 'No matches.')));
	} catch (error) {
		refill(page.results, h('p', { class: 'bad note', role: 'alert' }, error.message));
	}
}

function marked(text, words) {
	const at = text.toLowerCase().indexOf(words.toLowerCase());
	return at < 0 ? [visible(text)] : [visible(text.slice(0, at)), h('mark', null, visible(text.slice(at, at + words.length))), visible(text.slice(at + words.length))];
}

// -- this browser

function refused(error) {
	if (error.status === 401) {
		page.view?.close();
		page.listLink?.close();
		page.view = page.listLink = null;
		setDevice(null);
		showPairing('This browser no longer has access. Pair it again.');
		return;
	}
	refill(page.place, h('main', { class: 'empty', id: 'main' }, h('p', { class: 'bad' }, error.message), h('a', { href: '#/' }, 'All sessions')));
}

function showDevice() {
	const dialog = h('dialog', { class: 'small', 'aria-label': 'This browser' },
		h('div', { class: 'side-head' }, h('h2', null, 'This browser'), iconButton('close', 'Close', () => dialog.close())),
		h('dl', { class: 'input' }, h('dt', null, 'Name'), h('dd', null, device?.name ?? ''), h('dt', null, 'Permissions'), h('dd', null, (device?.scopes ?? []).join(', ')), h('dt', null, 'Signs messages'), h('dd', null, device?.key ? 'yes, with a key that never leaves this browser' : 'no'), h('dt', null, 'Opens sealed sessions'), h('dd', null, device?.seals?.length ? 'yes' : 'no')),
		drawPushes(),
		h('h3', null, 'Keys'), h('dl', { class: 'input keys' }, KEYS.flatMap(([key, words]) => [h('dt', null, h('kbd', null, key)), h('dd', null, words)])),
		h('div', { class: 'actions' },
			h('button', { type: 'button', class: 'danger', onclick: async () => { await stopPushes(); await setDevice(null); location.hash = ''; location.reload(); } }, 'Forget this browser')));
	dialog.addEventListener('close', () => dialog.remove());
	document.body.append(dialog);
	dialog.showModal();
}

const KEYS = [['/', 'search'], ['j k', 'next or previous session'], ['i', 'write a prompt'], ['a', 'allow once'], ['s', 'allow for this session'], ['d', 'deny, with a reason'], ['G', 'go to the end'], ['p', 'session details']];

function pressed(event) {
	if (event.ctrlKey || event.metaKey || event.altKey || event.defaultPrevented) return;
	if (event.target.closest('input, textarea, select, dialog') || (event.key === 'Enter' && event.target.closest('a, button, summary'))) return;
	if (event.key === '/') page.search.focus();
	else if (event.key === '?') showDevice();
	else if (event.key === 'j' || event.key === 'k') step(event.key === 'j' ? 1 : -1);
	else if (!page.view?.press(event)) return;
	event.preventDefault();
}

function step(by) {
	const entries = [...page.results.querySelectorAll('a.entry')];
	const at = entries.findIndex((entry) => entry.getAttribute('href') === location.hash);
	const next = entries[Math.max(0, Math.min(entries.length - 1, at + by))];
	if (next) location.hash = next.getAttribute('href');
}

begin();
