// Questions of a session: the call, its folder, the reason, and the answers that the machine accepts.

import { h, icon, put, shortPath, visible, say } from './dom.js';
import { colored, drawChange, folded, languageOf } from './code.js';
import { markdown } from './markdown.js';
import { drawInput } from './rows.js';

const MARKS = { allow: ['✓', 'allowed'], ask: ['?', 'needs approval'], review: ['?', 'needs review'], deny: ['✗', 'denied'] };
// A key press meant for something else must not answer a question that has just appeared.
const SETTLED_MS = 500;

export function titleOf(request) {
	switch (request.tool_name) {
		case 'Bash': case 'PowerShell': return 'Run this command?';
		case 'Edit': case 'MultiEdit': case 'NotebookEdit': return 'Make this edit?';
		case 'Write': return 'Write this file?';
		case 'ExitPlanMode': return 'Start working on this plan?';
		case 'AskUserQuestion': return 'A question for you';
		case 'WebFetch': return 'Fetch this page?';
		default: return request.subtype === 'elicitation' ? 'A server asks you' : `Use ${request.display_name || request.tool_name || 'this tool'}?`;
	}
}

/** Return a short description of a question for lists. */
export function briefOf(request) {
	const input = request.input ?? {};
	return String(input.command ?? input.file_path ?? input.url ?? input.questions?.[0]?.question ?? request.title ?? request.message ?? request.tool_name ?? '');
}

function drawCall(request, cwd) {
	const input = request.input ?? {};
	const path = input.file_path ?? input.notebook_path;
	const where = path && h('p', { class: 'path', dir: 'ltr' }, visible(shortPath(path, cwd)));
	switch (request.tool_name) {
		case 'Bash': case 'PowerShell':
			return [
				h('pre', { class: 'call', tabindex: '0', dir: 'ltr', 'aria-label': 'Command' }, h('code', null, colored(visible(String(input.command ?? '')), 'bash'))),
				input.description && h('p', { class: 'quiet', dir: 'auto' }, visible(String(input.description)))];
		case 'Edit': return [where, drawChange(String(input.old_string ?? ''), String(input.new_string ?? '')), input.replace_all && h('p', { class: 'quiet' }, 'Replaces all occurrences')];
		case 'MultiEdit': return [where, (input.edits ?? []).map((edit) => drawChange(String(edit.old_string ?? ''), String(edit.new_string ?? '')))];
		case 'Write': return [where, folded(String(input.content ?? ''), (text) => colored(visible(text), languageOf(path ?? '')), { lines: 24, label: 'Content' })];
		case 'ExitPlanMode': return [put(h('div', { class: 'plan prose' }), markdown(String(input.plan ?? '')))];
		default: return [request.message && h('p', { dir: 'auto' }, visible(String(request.message))), drawInput(input)];
	}
}

function drawParts(parts) {
	if (!Array.isArray(parts) || parts.length < 2) return null;
	return h('ul', { class: 'parts' }, parts.map((part) => {
		const [mark, words] = MARKS[part.verdict] ?? MARKS.ask;
		return h('li', { class: part.verdict }, h('span', { class: 'mark', role: 'img', 'aria-label': words }, mark),
			h('code', { dir: 'ltr' }, visible(String(part.subject ?? ''))), h('span', { class: 'quiet' }, visible(String(part.reason ?? ''))));
	}));
}

/**
 * Return the card of a question. `answer(verdict)` sends an answer; `allows` says whether this
 * browser may answer, and whether the machine accepts answers for the entire session.
 */
export function drawCard(question, { cwd, answer, allows, waiting, place }) {
	const { request } = question;
	const since = performance.now();
	const isChoice = request.tool_name === 'AskUserQuestion';
	const words = h('input', { type: 'text', class: 'reason', placeholder: 'What to do instead', 'aria-label': 'Reason for denying, or what to do instead', autocomplete: 'off', enterkeyhint: 'send' });
	const suggestions = request.permission_suggestions ?? [];
	const canKeep = allows.session && suggestions.length > 0 && !isChoice && request.tool_name !== 'ExitPlanMode';
	let card;
	const reply = (verdict, said) => {
		for (const element of card.querySelectorAll('button, input')) element.disabled = true;
		say(said);
		answer(verdict);
	};
	const allow = (more = {}) => reply({ behavior: 'allow', updatedInput: request.input ?? {}, ...more }, 'Allowed');
	const deny = () => reply({ behavior: 'deny', message: words.value.trim() || 'The user denied this call.' }, 'Denied');
	words.addEventListener('keydown', (event) => {
		if (event.key === 'Enter' && words.value.trim()) deny();
	});
	const key = (letter) => h('kbd', { 'aria-hidden': 'true' }, letter);
	const head = [
		h('div', { class: 'card-head' },
			h('h2', null, request.agent_id ? `Agent: ${titleOf(request)}` : titleOf(request)),
			waiting > 1 && h('span', { class: 'tag' }, `1 of ${waiting}`)),
		place && h('p', { class: 'place', dir: 'ltr' }, visible(place))];
	const parts = drawParts(request.clew_parts);
	let inner, actions;
	if (isChoice) {
		[inner, actions] = drawChoices(request, (answers) => allow({ updatedInput: { ...request.input, answers } }), deny, words);
	} else if (request.subtype === 'elicitation' || (!request.tool_name && request.subtype !== 'can_use_tool')) {
		inner = drawCall(request, cwd);
		actions = [h('button', { type: 'button', onclick: () => reply({ action: 'decline' }, 'Declined') }, 'Decline')];
	} else {
		inner = [h('div', { class: 'card-call' }, drawCall(request, cwd)),
			parts ? h('p', { class: 'why quiet' }, 'Parts marked ? need approval:') : request.decision_reason && h('p', { class: 'why', dir: 'auto' }, h('span', { class: 'quiet' }, 'Needs approval: '), visible(request.decision_reason)),
			parts];
		actions = [
			h('button', { type: 'button', class: 'primary', onclick: () => allow(), 'aria-keyshortcuts': 'a' }, request.tool_name === 'ExitPlanMode' ? 'Start' : 'Allow once', key('A')),
			canKeep && h('button', { type: 'button', onclick: () => allow({ updatedPermissions: suggestions }), 'aria-keyshortcuts': 's', title: describeSuggestions(suggestions) }, 'Allow for this session', key('S')),
			h('div', { class: 'deny' }, words, h('button', { type: 'button', class: 'danger', onclick: deny, 'aria-keyshortcuts': 'd' }, 'Deny', key('D')))];
	}
	card = h('section', { class: 'card', 'aria-label': `Question: ${titleOf(request)}`, tabindex: '-1' }, head,
		h('div', { class: 'card-body', tabindex: '0', role: 'group', 'aria-label': 'Call to approve' }, inner),
		allows.answer ? h('div', { class: 'actions' }, actions) : h('p', { class: 'quiet' }, 'This browser can watch, but not answer.'));
	card.press = (letter) => {
		if (performance.now() - since < SETTLED_MS || !allows.answer || isChoice || !request.tool_name) return false;
		if (letter === 'a') allow();
		else if (letter === 's' && canKeep) allow({ updatedPermissions: suggestions });
		else if (letter === 'd') words.focus();
		else return false;
		return true;
	};
	return card;
}

function describeSuggestions(suggestions) {
	return suggestions.map((update) => (update.type === 'setMode' ? `Mode: ${update.mode}` : (update.rules ?? []).map((rule) => `${rule.toolName}(${rule.ruleContent ?? '*'})`).join(', '))).join('; ');
}

function drawChoices(request, send, deny, words) {
	const questions = request.input?.questions ?? [];
	const fields = questions.map((question, number) => {
		const kind = question.multiSelect ? 'checkbox' : 'radio';
		const other = h('input', { type: 'text', class: 'reason', placeholder: 'Something else', 'aria-label': `Another answer to: ${question.question}`, autocomplete: 'off' });
		const options = (question.options ?? []).map((option) => h('label', { class: 'choice' },
			h('input', { type: kind, name: `choice-${request.tool_use_id}-${number}`, value: option.label }),
			h('span', null, h('strong', { dir: 'auto' }, visible(String(option.label ?? ''))), option.description && h('span', { class: 'quiet', dir: 'auto' }, visible(String(option.description))))));
		return { question, other, element: h('fieldset', null, h('legend', { dir: 'auto' }, visible(String(question.question ?? ''))), options, other) };
	});
	const read = () => {
		const answers = {};
		for (const { question, other, element } of fields) {
			const chosen = [...element.querySelectorAll('input:checked')].map((input) => input.value);
			if (other.value.trim()) chosen.push(other.value.trim());
			if (!chosen.length) {
				say('Choose an answer to each question.');
				element.querySelector('input')?.focus();
				return;
			}
			answers[question.question] = chosen.join(', ');
		}
		send(answers);
	};
	return [fields.map((field) => field.element), [
		h('button', { type: 'button', class: 'primary', onclick: read }, 'Answer'),
		h('div', { class: 'deny' }, words, h('button', { type: 'button', class: 'danger', onclick: deny }, 'Decline'))]];
}
