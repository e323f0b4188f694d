// Rewinds, and what only `clew web` offers: new sessions, forks and the tree of branches.

import { h, iconButton, put, refill, visible } from './dom.js';
import { ask, device, openSessions, pause, readEvents, Refusal, send } from './net.js';

const ANSWER_MS = 500, ANSWER_TRIES = 40;

function openDialog(title, ...content) {
	const dialog = h('dialog', { class: 'small', 'aria-label': title }, h('div', { class: 'side-head' }, h('h2', null, title), iconButton('close', 'Close', () => dialog.close())), content);
	dialog.addEventListener('close', () => dialog.remove());
	document.body.append(dialog);
	dialog.showModal();
	return dialog;
}

/** Make a host fork a session of its machine, and return what it made. */
async function forkOnHost(view, uuid, before) {
	const hosts = await openSessions((await ask('GET', '/v1/code/sessions?kind=host')).data);
	const host = hosts.find((one) => one.connection_status === 'connected' && one.external_metadata?.folders?.includes(view.cwd));
	if (!host) throw new Refusal(404, `To fork this session, run clew host on its machine, with ${view.cwd || 'its folder'} in remoteFolders.`);
	const id = crypto.randomUUID();
	const request = { subtype: 'fork_session', session_id: view.id, folder: view.cwd, message_uuid: uuid, before };
	await send(host.session_id, { type: 'control_request', uuid: crypto.randomUUID(), request_id: id, request }, { tries: 3 });
	for (let at = 0; at < ANSWER_TRIES; at++) {
		await pause(ANSWER_MS);
		const { events } = await readEvents(host.session_id, 'limit=20');
		const answer = events.map(({ payload }) => payload.response).find((response) => response?.request_id === id);
		if (answer?.error) throw new Refusal(409, answer.error);
		if (!answer) continue;
		const made = answer.response;
		// The page can show the fork before its process has reached the server.
		await ask('POST', '/v1/code/sessions', { session_id: made.session_id, title: device.seals?.length ? 'Sealed session' : made.title });
		return made;
	}
	throw new Refusal(0, 'The host did not answer.');
}

async function fork(view, uuid, before, isLocal = true) {
	try {
		const made = isLocal ? await ask('POST', `/v1/web/sessions/${view.id}/fork`, { uuid, before }) : await forkOnHost(view, uuid, before);
		if (before) sessionStorage.setItem(`draft-${made.session_id}`, made.text);
		location.hash = `#/s/${made.session_id}`;
	} catch (error) {
		view.toast(error.message);
	}
}

/** Return a prompt's button, which rewinds the session to that prompt or forks it there. */
export function drawPromptMenu(view, item, isLocal) {
	const canFork = view.can('start');
	const canRewind = view.can('prompt') && view.about.origin !== 'file' && view.about.read_only !== true;
	if (!canFork && !canRewind) return null;
	let dialog;
	const button = (words, act, kind) => h('button', { type: 'button', class: kind, onclick: () => { dialog.close(); act(); } }, words);
	const rewind = () => {
		view.editing = item;
		view.request('rewind_conversation', { message_uuid: item.id });
	};
	return iconButton('more', 'More', () => {
		dialog = openDialog('Go back to this prompt',
			canFork && [h('p', { class: 'quiet' }, 'A fork is a copy of the session up to this point. This session does not change.'),
				h('div', { class: 'actions' }, button('Edit and resend the prompt', () => fork(view, item.id, true, isLocal), 'primary'), button('Continue after its answer', () => fork(view, item.id, false, isLocal)))],
			canRewind && [h('p', { class: 'quiet' }, 'A rewind removes this prompt, and everything after it, from the conversation. The transcript keeps all of it, and files do not change.'),
				h('div', { class: 'actions' }, button('Rewind and edit the prompt', rewind, canFork ? null : 'primary'))]);
	}, { class: 'icon-button row-menu' });
}

/** Return the tree of branches, which is loaded when it is opened. */
export function drawSide(view) {
	const list = h('ol', { class: 'branches' });
	const show = async () => {
		const found = await ask('GET', `/v1/web/sessions/${view.id}/branches`).catch((error) => ({ data: [], error }));
		refill(list, found.error && h('li', null, found.error.message), found.data.map((prompt) => {
			const line = h('li', { class: prompt.live ? null : 'quiet' }, h('button', { type: 'button', class: 'plain', title: prompt.live ? 'On this branch' : 'Open this branch as a session', onclick: () => {
				const item = view.model.prompts.get(prompt.uuid);
				if (item) view.showItem(item);
				else fork(view, prompt.uuid, false);
			} }, `${prompt.live ? '●' : '○'} ${visible(prompt.text)}`));
			line.style.paddingInlineStart = `${Math.min(prompt.depth, 6) * 0.75}rem`;
			return line;
		}));
	};
	return h('section', null, h('details', { ontoggle: show }, h('summary', null, h('h3', null, 'Branches')), list));
}

/** Return the button that starts a session in the folder of clew web, or where there are sessions. */
export function drawStart() {
	return iconButton('plus', 'New session', async () => {
		const found = await ask('GET', '/v1/web/folders').catch((error) => ({ data: [], error }));
		const folders = found.data;
		const choice = h('select', { 'aria-label': 'Folder', class: 'framed' }, folders.map((folder) => h('option', { value: folder }, folder)));
		const words = h('p', { class: 'bad', role: 'alert' }, found.error?.message);
		const start = async (event) => {
			event.preventDefault();
			words.textContent = '';
			try {
				const made = await ask('POST', '/v1/web/sessions', { folder: choice.value });
				dialog.close();
				sessionStorage.setItem(`fresh-${made.session_id}`, '1');
				location.hash = `#/s/${made.session_id}`;
			} catch (error) {
				words.textContent = error.message;
			}
		};
		const dialog = openDialog('New session', put(h('form', { onsubmit: start }), h('label', null, 'Folder', choice), words, h('div', { class: 'actions' }, h('button', { class: 'primary' }, 'Start'))));
	});
}
