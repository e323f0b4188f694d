// Sharing a session by link, and opening such a link.

import { h, iconButton, refill, say, span, visible } from './dom.js';
import { ask, derive, device, keyOf, setDevice } from './net.js';

const RIGHTS = [['view', 'Watch'], ['view,answer', 'Watch and answer'], ['view,answer,prompt', 'Watch, answer and prompt']];
const TIMES = [[1, 'for an hour'], [8, 'for 8 hours'], [24, 'for a day'], [168, 'for a week']];

/** Use a link: TOKEN.KEY.DEVICE.SHARE, where KEY and DEVICE are empty if its creator can't sign. */
export async function useLink(text) {
	const [token, key, by, ...share] = text.split('.');
	const me = await ask('GET', '/v1/web/me', undefined, { token });
	await setDevice({ token, id: by || me.id, key: key ? await keyOf(key) : null, share: key ? share.join('.') : '', scopes: me.scopes, name: me.name, session: me.session });
	return me.session;
}

/** Return the side panel's list of links to a session, with a button that creates another. */
export function drawShares(view) {
	if (device?.session) return null;
	const path = `/v1/web/sessions/${view.id}/shares`;
	const list = h('ul', { class: 'shares' });
	const show = async () => {
		const found = await ask('GET', path).catch(() => ({ data: [] }));
		refill(list, found.data.map((share) => h('li', null, h('span', null, visible(share.name), h('span', { class: 'quiet' }, ` ${share.scopes.replaceAll(',', ', ')} · ${span(share.expires_at_ms - Date.now())} left`)),
			iconButton('close', `Revoke the link of ${share.name}`, async () => {
				await ask('DELETE', `${path}/${share.id}`).catch((error) => view.toast(error.message));
				show();
			}))));
	};
	show();
	return h('section', null, h('h3', null, 'Shared with'), list, h('button', { type: 'button', onclick: () => openDialog(view, path, show) }, 'Share this session'));
}

function openDialog(view, path, show) {
	const may = RIGHTS.filter(([scopes]) => scopes.split(',').every((scope) => view.can(scope)));
	const name = h('input', { type: 'text', required: true, maxlength: '60', autocomplete: 'off' });
	const rights = h('select', { class: 'framed' }, may.map(([value, words]) => h('option', { value }, words)));
	const hours = h('select', { class: 'framed' }, TIMES.map(([value, words]) => h('option', { value }, words)));
	const note = h('textarea', { rows: '3', maxlength: '1000', placeholder: 'What is done and what comes next' });
	const words = h('p', { class: 'bad', role: 'alert' });
	const body = h('form', { onsubmit: make }, h('label', null, 'Share with', name), h('label', null, 'Permissions', rights), h('label', null, 'Duration', hours), h('label', null, 'Note, shown in the session', note), words, h('div', { class: 'actions' }, h('button', { class: 'primary' }, 'Create a link')));
	const dialog = h('dialog', { class: 'small', 'aria-label': 'Share this session' }, h('div', { class: 'side-head' }, h('h2', null, 'Share this session'), iconButton('close', 'Close', () => dialog.close())), body);

	async function make(event) {
		event.preventDefault();
		try {
			const made = await ask('POST', path, { name: name.value, scopes: rights.value.split(','), hours: Number(hours.value), note: note.value });
			const share = `${made.id}.${made.scopes.join(',')}.${made.expires_at_ms}`;
			const key = device.key && !device.share ? await derive(`clew share\n${view.id}\n${share}`) : '';
			const link = `${location.origin}/#share=${[made.token, key, key && device.id, share].join('.')}`;
			const field = h('input', { type: 'text', readonly: true, value: link, 'aria-label': 'Link' });
			refill(body, h('p', null, `Send this link only to ${made.name}. Anyone who has it can use it.`), field,
				h('div', { class: 'actions' }, h('button', { type: 'button', class: 'primary', onclick: async () => { await navigator.clipboard.writeText(link).catch(() => field.select()); say('Copied'); } }, 'Copy')));
			field.select();
			show();
		} catch (error) {
			words.textContent = error.message;
		}
	}
	dialog.addEventListener('close', () => dialog.remove());
	document.body.append(dialog);
	dialog.showModal();
}
