// Web Push: notifications of questions while the page is closed.

import { h, refill, say } from './dom.js';
import { ask } from './net.js';

const PATH = '/v1/web/push';
const DETAILS = [['', 'Off'], ['page', 'Only while this page is open'], ['none', 'Say only that a session waits'], ['title', 'Show the title of the session'], ['question', 'Show the title and the question']];

function canPush() {
	return Boolean(navigator.serviceWorker && globalThis.PushManager && globalThis.Notification && window.isSecureContext);
}

/** Subscribe at the browser's push service, under the key of this server. */
async function subscribe(key) {
	const { pushManager } = await navigator.serviceWorker.ready;
	const options = { userVisibleOnly: true, applicationServerKey: Uint8Array.from(atob(key.replaceAll('-', '+').replaceAll('_', '/')), (c) => c.charCodeAt(0)) };
	try {
		return await pushManager.subscribe(options);
	} catch (error) {
		// The subscription belongs to another key, such as that of an earlier database.
		const old = await pushManager.getSubscription();
		if (!old) throw error;
		await old.unsubscribe();
		return pushManager.subscribe(options);
	}
}

async function choose(detail, key) {
	localStorage.setItem('push', detail);
	if (detail && (await Notification.requestPermission()) !== 'granted') throw new Error('This browser does not allow notifications from this page.');
	if (!detail || detail === 'page') {
		await stopPushes(detail);
		return;
	}
	const { endpoint, keys } = (await subscribe(key)).toJSON();
	await ask('PUT', PATH, { endpoint, keys, detail });
}

/** Unsubscribe this browser. The page itself may still notify the user. */
export async function stopPushes(detail = '') {
	localStorage.setItem('push', detail);
	if (!canPush()) return;
	await ask('DELETE', PATH).catch(() => {});
	const registration = await navigator.serviceWorker.getRegistration();
	await (await registration?.pushManager.getSubscription())?.unsubscribe();
}

/** Send the subscription again, because browsers change it from time to time. */
export async function renewPushes() {
	const detail = localStorage.getItem('push');
	if (!detail || detail === 'page' || !canPush() || Notification.permission !== 'granted') return;
	await ask('GET', PATH).then(({ key }) => choose(detail, key)).catch(() => {});
}

/** Return the choice of what pushes contain; empty if this browser or server can't send any. */
export function drawPushes() {
	const place = h('div', { class: 'pushes' });
	if (!canPush()) return place;
	ask('GET', PATH).then(({ key, detail: pushed }) => {
		const detail = pushed || (localStorage.getItem('push') === 'page' ? 'page' : '');
		const words = h('p', { class: 'bad', role: 'alert' });
		const select = h('select', { id: 'pushes', class: 'framed' }, DETAILS.map(([value, label]) => h('option', { value }, label)));
		select.value = detail;
		select.addEventListener('change', async () => {
			words.textContent = '';
			select.disabled = true;
			try {
				await choose(select.value, key);
				say(select.value ? 'Notifications are on' : 'Notifications are off');
			} catch (error) {
				words.textContent = error.message;
				localStorage.setItem('push', detail);
				select.value = detail;
			}
			select.disabled = false;
		});
		refill(place, h('label', { for: 'pushes' }, 'Notify me of questions'), select,
			h('p', { class: 'quiet' }, 'While this page is closed, they come through the push service of your browser. The text is encrypted for this browser.'), words);
	}).catch(() => {});
	return place;
}
