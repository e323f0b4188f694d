// Sealed sessions, which the server forwards without being able to read them (AES-256-GCM). The
// keys come with the pairing, and no script can read them. The format is that of
// `clew.record.stores.sealing`.

const FORMAT = 1;
const NONCE_BYTES = 12;
const utf8 = new TextEncoder();
// The derived keys, and for each session the key of this browser that opened its texts.
const derived = new Map();
const opened = new Map();

/** Return a value as JSON with sorted names, the form that signatures and seals cover. */
export function encodeSorted(value) {
	if (Array.isArray(value)) return `[${value.map(encodeSorted).join(',')}]`;
	if (value === null || typeof value !== 'object') return JSON.stringify(value);
	const names = Object.keys(value).filter((name) => value[name] !== undefined);
	names.sort((a, b) => compareCodePoints(a, b));
	return `{${names.map((name) => `${JSON.stringify(name)}:${encodeSorted(value[name])}`).join(',')}}`;
}

function compareCodePoints(a, b) {
	const [x, y] = [utf8.encode(a), utf8.encode(b)];
	for (let i = 0; i < Math.min(x.length, y.length); i++) if (x[i] !== y[i]) return x[i] - y[i];
	return x.length - y.length;
}

export function importRoot(bytes) {
	return crypto.subtle.importKey('raw', bytes, 'HKDF', false, ['deriveKey']);
}

function keyFor(root, session) {
	if (!derived.has(root)) derived.set(root, new Map());
	const known = derived.get(root);
	if (!known.has(session)) {
		const how = { name: 'HKDF', hash: 'SHA-256', salt: new Uint8Array(0), info: utf8.encode(`clew seal\n${session}`) };
		known.set(session, crypto.subtle.deriveKey(how, root, { name: 'AES-GCM', length: 256 }, false, ['encrypt', 'decrypt']));
	}
	return known.get(session);
}

/** Return the content of a sealed text, or null if none of the keys opens it. */
export async function openText(roots, session, place, text) {
	let data;
	try {
		data = Uint8Array.from(atob(text), (letter) => letter.charCodeAt(0));
	} catch {
		return null;
	}
	const how = { name: 'AES-GCM', iv: data.subarray(1, 1 + NONCE_BYTES), additionalData: utf8.encode(place) };
	for (const root of data[0] === FORMAT ? roots : []) {
		try {
			const plain = await crypto.subtle.decrypt(how, await keyFor(root, session), data.subarray(1 + NONCE_BYTES));
			opened.set(session, root);
			return JSON.parse(new TextDecoder().decode(plain));
		} catch {
			// Another key may open it.
		}
	}
	return null;
}

async function sealText(root, session, place, value) {
	const nonce = crypto.getRandomValues(new Uint8Array(NONCE_BYTES));
	const how = { name: 'AES-GCM', iv: nonce, additionalData: utf8.encode(place) };
	const hidden = await crypto.subtle.encrypt(how, await keyFor(root, session), utf8.encode(JSON.stringify(value)));
	return btoa([FORMAT, ...nonce, ...new Uint8Array(hidden)].map((byte) => String.fromCharCode(byte)).join(''));
}

function placeOf(header) {
	return `frame\n${encodeSorted(header)}`;
}

/** Return a frame in the form that the server receives: with only what it needs to forward it. */
export async function sealFrame(roots, session, frame) {
	const header = { type: frame.type, uuid: frame.uuid };
	if (frame.request_id) header.request_id = frame.request_id;
	if (frame.request) header.request = { subtype: frame.request.subtype };
	if (frame.response) header.response = { subtype: frame.response.subtype, request_id: frame.response.request_id };
	return { ...header, sealed: await sealText(opened.get(session) ?? roots[0], session, placeOf(header), frame) };
}

/** Return an event with its payload opened. What can't be opened has the type `sealed`. */
export async function openEvent(roots, session, about) {
	const payload = about.payload;
	if (typeof payload?.sealed !== 'string') return about;
	const { sealed, clew_mac: _, ...header } = payload;
	const frame = await openText(roots, session, placeOf(header), sealed);
	return { ...about, payload: frame ?? { type: 'sealed', uuid: payload.uuid } };
}

export function openEvents(roots, session, events) {
	return Promise.all(events.map((about) => openEvent(roots, session, about)));
}

/** Return the server's data on a session, with the worker's sealed report opened. */
export async function openSession(roots, about) {
	const text = about?.external_metadata?.sealed;
	if (typeof text !== 'string') return about;
	const report = (await openText(roots, about.session_id, 'state', text)) ?? {};
	return { ...about, external_metadata: report, title: report.title || about.title };
}
