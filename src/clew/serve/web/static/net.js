// The connection to the server: requests, the event stream, signatures, and this browser's storage.

import { encodeSorted, importRoot, openEvent, openEvents, openSession, openText, sealFrame } from './seal.js';

const DATABASE = 'clew';
const STORE = 'kept';
// The server sends a keep-alive message every five seconds.
const SILENCE_MS = 12_000;
const LONGEST_WAIT_MS = 5_000;
const utf8 = new TextEncoder();

// -- this browser's storage. Scripts can sign with the key, but can't read it.

let memory = new Map();

function openDatabase() {
	return new Promise((resolve, reject) => {
		const request = indexedDB.open(DATABASE, 1);
		request.onupgradeneeded = () => request.result.createObjectStore(STORE);
		request.onsuccess = () => resolve(request.result);
		request.onerror = () => reject(request.error);
	});
}

async function inStore(mode, work) {
	const database = await openDatabase();
	try {
		return await new Promise((resolve, reject) => {
			const request = work(database.transaction(STORE, mode).objectStore(STORE));
			request.onsuccess = () => resolve(request.result);
			request.onerror = () => reject(request.error);
		});
	} finally {
		database.close();
	}
}

export async function recall(name) {
	try {
		return await inStore('readonly', (store) => store.get(name));
	} catch {
		return memory.get(name);
	}
}

export async function keep(name, value) {
	memory.set(name, value);
	try {
		await inStore('readwrite', (store) => (value === undefined ? store.delete(name) : store.put(value, name)));
	} catch {
		// A private window stores nothing; the page still works until it is closed.
	}
}

// -- requests

export let device = null;

export async function loadDevice() {
	device = (await recall('device')) ?? null;
	return device;
}

export async function setDevice(value) {
	device = value;
	await keep('device', value ?? undefined);
}

/** A failed request; `status` is 0 if the server could not be reached. */
export class Refusal extends Error {
	constructor(status, message, reason = '') {
		super(message);
		this.status = status;
		this.reason = reason;
	}

	get isPassing() {
		return this.status === 0 || this.status === 429 || this.status >= 500;
	}
}

export async function ask(method, path, body, { token = device?.token, signal } = {}) {
	const headers = { 'content-type': 'application/json' };
	if (token) headers.authorization = `Bearer ${token}`;
	let response;
	try {
		response = await fetch(path, {
			method, headers, signal, body: body === undefined ? undefined : JSON.stringify(body),
			credentials: 'omit', cache: 'no-store', redirect: 'error',
		});
	} catch (error) {
		if (signal?.aborted) throw error;
		throw new Refusal(0, 'The server can’t be reached.');
	}
	const value = await response.json().catch(() => ({}));
	if (!response.ok) {
		throw new Refusal(response.status, value?.error?.message ?? `The server returned status ${response.status}.`, value?.error?.reason);
	}
	return value;
}

// -- signatures

function hex(bytes) {
	return [...new Uint8Array(bytes)].map((byte) => byte.toString(16).padStart(2, '0')).join('');
}

async function hmacHex(key, text) {
	return hex(await crypto.subtle.sign('HMAC', key, utf8.encode(text)));
}

function importKey(bytes) {
	return crypto.subtle.importKey('raw', bytes, { name: 'HMAC', hash: 'SHA-256' }, false, ['sign']);
}

export function keyOf(text) {
	return importKey(utf8.encode(text));
}

/** Return the HMAC of a text under this browser's key. */
export function derive(text) {
	return hmacHex(device.key, text);
}

/** Return a message with this browser's signature, if it has a key. */
export async function sign(payload, session) {
	if (!device?.key) return payload;
	const mac = await hmacHex(device.key, `${session}\n${encodeSorted(payload)}`);
	return { ...payload, clew_mac: { device: device.id, mac, ...(device.share ? { share: device.share } : {}) } };
}

/** Send a viewer's message, with retries; its UUID prevents storing it twice. */
export async function send(session, payload, { tries = Infinity } = {}) {
	const given = roots().length ? await sealFrame(roots(), session, payload) : payload;
	const signed = await sign(given, session);
	for (let attempt = 0; ; attempt++) {
		try {
			const path = `/v1/code/sessions/${session}/events`;
			return (await ask('POST', path, { events: [{ payload: signed }] })).results[0];
		} catch (error) {
			if (!(error instanceof Refusal) || !error.isPassing || attempt + 1 >= tries) throw error;
			await pause(delay(attempt));
		}
	}
}

// -- sealed sessions

function roots() {
	return device?.seals ?? [];
}

/** Return a page of events, with sealed events opened. */
export async function readEvents(session, query) {
	const page = await ask('GET', `/v1/web/sessions/${session}/events?${query}`);
	const [events, questions, about] = await Promise.all([
		openEvents(roots(), session, page.events), openEvents(roots(), session, page.questions ?? []), openSession(roots(), page.session),
	]);
	return { ...page, events, questions, session: about };
}

export function openSessions(sessions) {
	return Promise.all(sessions.map((about) => openSession(roots(), about)));
}

/** Open the sealed content of a frame of the stream. */
async function openFrame(session, name, value) {
	if (name === 'event' || name === 'ephemeral_event') return openEvent(roots(), session, value);
	if (name === 'session') return openSession(roots(), value);
	return name === 'sessions' ? openSessions(value) : value;
}

/** Return the keys that a pairing brought, sealed with a key derived from its code. */
async function readGift(root, claim, gift) {
	if (!gift) return [];
	const wrapper = await importRoot(await crypto.subtle.sign('HMAC', root, utf8.encode('clew pairing seal')));
	const keys = (await openText([wrapper], claim, 'keys', gift)) ?? [];
	return Promise.all(keys.map((key) => importRoot(Uint8Array.from(key.match(/../g), (digits) => Number.parseInt(digits, 16)))));
}

export function pause(ms) {
	return new Promise((resolve) => setTimeout(resolve, ms));
}

function delay(attempt) {
	return Math.min(LONGEST_WAIT_MS, 250 * 2 ** attempt) * (0.6 + 0.4 * Math.random());
}

// -- pairing

const LETTERS = 'ABCDEFGHIJKLMNOPQRSTUVWXYZ234567';
const SECRET_BYTES = 20;

function readCode(code) {
	const text = code.replace(/[-\s]/g, '').toUpperCase();
	const bytes = new Uint8Array(SECRET_BYTES);
	if (text.length !== (SECRET_BYTES * 8) / 5) return null;
	let bits = 0, value = 0, at = 0;
	for (const letter of text) {
		const digit = LETTERS.indexOf(letter);
		if (digit < 0) return null;
		value = ((value << 5) | digit) & 0xfff;
		bits += 5;
		if (bits >= 8) bytes[at++] = (value >> (bits -= 8)) & 0xff;
	}
	return bytes;
}

/** Pair this browser with a code. `wait` is called while the confirmation is pending. */
export async function pair(code, name, wait, signal) {
	const secret = readCode(code);
	if (!secret) throw new Refusal(400, 'Invalid code: clew pair prints one of 32 letters and digits.');
	if (!crypto.subtle) throw new Refusal(400, 'Pairing requires HTTPS, or a browser on the machine of the server.');
	const root = await importKey(secret);
	const claim = await hmacHex(root, 'clew pairing claim');
	const key = await importKey(utf8.encode(await hmacHex(root, 'clew pairing key')));
	for (;;) {
		const given = await ask('POST', `/v1/pairings/${claim}/claim`, { name }, { token: '', signal });
		if (given.token) {
			const seals = await readGift(root, claim, given.gift);
			await setDevice({ token: given.token, id: given.device, key, seals, scopes: given.scopes.split(','), name });
			return;
		}
		wait();
		await pause(400);
	}
}

/** Use a token that `clew serve add` printed. It can't sign. */
export async function useToken(token) {
	const me = await ask('GET', '/v1/web/me', undefined, { token });
	await setDevice({ token, id: me.id, key: null, scopes: me.scopes, name: me.name });
}

// -- the stream

/**
 * The event stream of one session, or of the list of sessions if `session` is empty. After a lost
 * connection, it continues after the last number. `state` is `connecting`, `live`, `lost` or
 * `refused`; `heardAt` is the time of the last data.
 */
export class Link {
	constructor(session, after, { event, state }) {
		this.session = session;
		this.after = after;
		this.tell = event;
		this.changed = state;
		this.state = 'connecting';
		this.heardAt = performance.now();
		this.attempt = 0;
		this.isOpen = true;
		this.told = Promise.resolve();
		this.wake = () => {
			this.hurry?.();
			if (performance.now() - this.heardAt > SILENCE_MS) this.abort?.abort();
		};
		addEventListener('online', this.wake);
		addEventListener('offline', this.cut = () => this.abort?.abort());
		document.addEventListener('visibilitychange', this.wake);
		this.watch = setInterval(() => {
			if (this.state === 'live' && performance.now() - this.heardAt > SILENCE_MS) this.abort?.abort();
		}, 1000);
		this.run();
	}

	close() {
		this.isOpen = false;
		clearInterval(this.watch);
		removeEventListener('online', this.wake);
		removeEventListener('offline', this.cut);
		document.removeEventListener('visibilitychange', this.wake);
		this.abort?.abort();
		this.hurry?.();
	}

	get ageMs() {
		return performance.now() - this.heardAt;
	}

	set(state, why = '') {
		this.why = why;
		if (this.state !== state || why) {
			this.state = state;
			this.changed(state, why);
		}
	}

	async run() {
		while (this.isOpen) {
			this.abort = new AbortController();
			try {
				await this.read(this.abort.signal);
			} catch (error) {
				if (error instanceof Refusal && !error.isPassing) {
					this.set('refused', error.message);
					return;
				}
			}
			if (!this.isOpen) return;
			this.set('lost');
			await new Promise((resolve) => {
				this.hurry = resolve;
				setTimeout(resolve, delay(this.attempt++));
			});
			this.hurry = null;
		}
	}

	async read(signal) {
		const query = this.session ? `?session=${this.session}&after=${this.after}` : '';
		let response;
		try {
			response = await fetch(`/v1/web/stream${query}`, {
				headers: { authorization: `Bearer ${device?.token}` }, signal, cache: 'no-store', credentials: 'omit',
			});
		} catch {
			throw new Refusal(0, '');
		}
		if (!response.ok) {
			const value = await response.json().catch(() => ({}));
			throw new Refusal(response.status, value?.error?.message ?? '');
		}
		const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
		let rest = '';
		for (;;) {
			const { done, value } = await reader.read();
			if (done) return;
			this.heardAt = performance.now();
			this.attempt = 0;
			if (this.state !== 'live') this.set('live');
			const frames = (rest + value).split('\n\n');
			rest = frames.pop();
			for (const frame of frames) this.take(frame);
		}
	}

	take(frame) {
		let name = 'message', data = '';
		for (const line of frame.split('\n')) {
			if (line.startsWith('event: ')) name = line.slice(7);
			else if (line.startsWith('data: ')) data += line.slice(6);
		}
		if (!data || !this.isOpen) return;
		const value = JSON.parse(data);
		if (name === 'event') {
			if (value.sequence_num <= this.after) return;
			this.after = value.sequence_num;
		}
		// One after another, since a frame may have to be opened.
		this.told = this.told.then(async () => {
			const shown = await openFrame(this.session, name, value);
			if (this.isOpen) this.tell(name, shown);
		}).catch((error) => reportError(error));
	}
}
