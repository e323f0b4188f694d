// The prompt box: text, images, files, the draft, and the settings that the machine lets it change.

import { h, icon, iconButton, put, refill, say } from './dom.js';

const LONGEST_SIDE_PX = 1568;
const MOST_FILE_BYTES = 400_000;
const KEPT_AS_IS = new Set(['image/png', 'image/jpeg', 'image/gif', 'image/webp']);
const MODES = [
	['plan', 'Plan', 'Reads and plans; changes nothing'],
	['dontAsk', 'Don’t ask', 'Denies everything that needs approval'],
	['default', 'Ask', 'Asks before edits and commands'],
	['acceptEdits', 'Accept edits', 'Edits files without asking'],
	['auto', 'Auto', 'A reviewer model decides'],
	['bypassPermissions', 'Bypass', 'Allows everything without asking'],
];

export function modeName(mode) {
	return MODES.find(([name]) => name === (mode === 'manual' ? 'default' : mode))?.[1] ?? mode;
}

export class Composer {
	/** `send(content)` sends a prompt, `stop()` interrupts, `change(subtype, fields)` sends a request. */
	constructor({ send, stop, change, draft, keepDraft }) {
		this.send = send;
		this.change = change;
		this.keepDraft = keepDraft;
		this.files = [];
		this.state = {};
		this.box = h('textarea', {
			rows: '1', 'aria-label': 'Prompt', placeholder: 'Describe a change or ask a question', enterkeyhint: 'send', dir: 'auto',
			oninput: () => this.grow(), onkeydown: (event) => this.pressed(event), onpaste: (event) => this.pasted(event),
		});
		this.box.value = draft ?? '';
		this.picker = h('input', { type: 'file', multiple: true, class: 'hidden', tabindex: '-1', 'aria-hidden': 'true', onchange: () => this.add(this.picker.files) });
		this.shelf = h('ul', { class: 'attached', 'aria-label': 'Attached' });
		this.sendButton = iconButton('send', 'Send', () => this.submit(), { class: 'icon-button primary' });
		this.stopButton = iconButton('stop', 'Interrupt', stop, { class: 'icon-button stop' });
		this.mode = h('select', { 'aria-label': 'Permission mode', onchange: () => this.change('set_permission_mode', { mode: this.mode.value }) });
		this.model = h('button', { type: 'button', class: 'plain', onclick: () => this.askModel(), title: 'Change the model' });
		this.why = h('p', { class: 'quiet barred' });
		this.element = h('form', {
			class: 'composer', onsubmit: (event) => { event.preventDefault(); this.submit(); },
			ondragover: (event) => { event.preventDefault(); this.element.classList.add('over'); },
			ondragleave: () => this.element.classList.remove('over'),
			ondrop: (event) => { event.preventDefault(); this.element.classList.remove('over'); this.add(event.dataTransfer.files); },
		}, this.shelf, this.box, this.why,
		h('div', { class: 'tools' },
			this.clip = iconButton('clip', 'Attach images or files', () => this.picker.click()), this.picker,
			this.mode, this.model, h('span', { class: 'space' }), this.stopButton, this.sendButton));
		requestAnimationFrame(() => this.grow());
	}

	/** Show the session's mode and model, whether a turn runs, and what this browser may do. */
	show(state) {
		this.state = state;
		const { mode, model, isRunning, canPrompt, why, modes } = state;
		this.stopButton.classList.toggle('gone', !isRunning || !state.canAnswer);
		for (const element of [this.box, this.clip]) element.disabled = !canPrompt;
		this.sendButton.disabled = !canPrompt;
		this.box.classList.toggle('gone', !canPrompt);
		this.why.classList.toggle('gone', canPrompt);
		this.why.textContent = why ?? '';
		const allowed = MODES.filter(([name]) => modes.includes(name));
		const key = `${mode} ${modes.join()}`;
		if (this.shownModes !== key) {
			this.shownModes = key;
			refill(this.mode, allowed.map(([name, words, title]) => h('option', { value: name, title }, words)));
			if (mode && !modes.includes(mode)) this.mode.prepend(h('option', { value: mode }, modeName(mode)));
		}
		this.mode.value = mode || 'default';
		this.mode.disabled = !canPrompt || !state.isHere;
		this.mode.classList.toggle('gone', !mode);
		this.model.textContent = model ? model.replace(/^claude-/, '').replace(/-\d{8}$/, '') : '';
		this.model.classList.toggle('gone', !model);
		this.model.disabled = !canPrompt || !state.isHere;
		this.box.placeholder = isRunning ? 'Send a follow-up to the running turn' : 'Describe a change or ask a question';
	}

	grow() {
		this.box.style.height = 'auto';
		this.box.style.height = `${Math.min(this.box.scrollHeight, innerHeight * 0.4)}px`;
		this.keepDraft?.(this.box.value);
	}

	pressed(event) {
		const isPhone = matchMedia('(pointer: coarse)').matches;
		if (event.key === 'Enter' && !event.shiftKey && !event.isComposing && (!isPhone || event.ctrlKey || event.metaKey)) {
			event.preventDefault();
			this.submit();
		}
		if (event.key === 'Escape') this.box.blur();
	}

	pasted(event) {
		const files = [...(event.clipboardData?.files ?? [])];
		if (!files.length) return;
		event.preventDefault();
		this.add(files);
	}

	async add(files) {
		for (const file of [...files]) {
			try {
				this.files.push(file.type.startsWith('image/') ? await readImage(file) : await readText(file));
			} catch (error) {
				say(`${file.name}: ${error.message}`);
				this.note(`${file.name}: ${error.message}`);
			}
		}
		this.picker.value = '';
		this.drawShelf();
		this.box.focus();
	}

	note(words) {
		this.shelf.append(h('li', { class: 'bad' }, words));
	}

	drawShelf() {
		refill(this.shelf, this.files.map((file, at) => h('li', null,
			file.preview ? h('img', { src: file.preview, alt: '' }) : null, h('span', null, file.name),
			iconButton('close', `Remove ${file.name}`, () => { this.files.splice(at, 1); this.drawShelf(); }))));
	}

	submit() {
		const text = this.box.value.trim();
		if ((!text && !this.files.length) || !this.state.canPrompt) return;
		const content = this.files.length ? [...(text ? [{ type: 'text', text }] : []), ...this.files.map((file) => file.block)] : text;
		this.box.value = '';
		this.files = [];
		this.drawShelf();
		this.grow();
		this.send(content);
	}

	take(text) {
		this.box.value = text;
		this.grow();
		this.box.focus();
	}

	askModel() {
		const field = h('input', { type: 'text', value: this.state.model ?? '', 'aria-label': 'Model', autocomplete: 'off', list: 'models' });
		const dialog = h('dialog', { class: 'small', 'aria-label': 'Change the model' },
			h('form', { method: 'dialog' }, h('h2', null, 'Model'), field,
				h('datalist', { id: 'models' }, ['opus', 'sonnet', 'haiku', 'default'].map((name) => h('option', { value: name }))),
				h('div', { class: 'actions' }, h('button', { class: 'primary', value: 'ok' }, 'Change'), h('button', { value: '' }, 'Cancel'))));
		dialog.addEventListener('close', () => {
			if (dialog.returnValue === 'ok' && field.value.trim()) this.change('set_model', { model: field.value.trim() });
			dialog.remove();
		});
		document.body.append(dialog);
		dialog.showModal();
		field.select();
	}
}

async function readImage(file) {
	const bitmap = await createImageBitmap(file).catch(() => { throw new Error('this image can’t be read'); });
	const scale = Math.min(1, LONGEST_SIDE_PX / Math.max(bitmap.width, bitmap.height));
	let blob = file;
	if (scale < 1 || !KEPT_AS_IS.has(file.type)) {
		const canvas = new OffscreenCanvas(Math.round(bitmap.width * scale), Math.round(bitmap.height * scale));
		canvas.getContext('2d').drawImage(bitmap, 0, 0, canvas.width, canvas.height);
		blob = await canvas.convertToBlob({ type: file.type === 'image/png' ? 'image/png' : 'image/jpeg', quality: 0.85 });
	}
	const data = await toBase64(blob);
	return { name: file.name || 'Image', preview: `data:${blob.type};base64,${data}`, block: { type: 'image', source: { type: 'base64', media_type: blob.type, data } } };
}

async function readText(file) {
	if (file.size > MOST_FILE_BYTES) throw new Error(`the file is larger than ${MOST_FILE_BYTES / 1000} kB`);
	let text;
	try {
		text = new TextDecoder('utf-8', { fatal: true }).decode(await file.arrayBuffer());
	} catch {
		throw new Error('only images and text files can be attached');
	}
	const fence = '`'.repeat(Math.max(3, ...[...text.matchAll(/`+/g)].map((found) => found[0].length + 1)));
	return { name: file.name, block: { type: 'text', text: `${file.name}:\n${fence}\n${text}\n${fence}` } };
}

function toBase64(blob) {
	return new Promise((resolve, reject) => {
		const reader = new FileReader();
		reader.onload = () => resolve(reader.result.slice(reader.result.indexOf(',') + 1));
		reader.onerror = () => reject(new Error('the file can’t be read'));
		reader.readAsDataURL(blob);
	});
}
