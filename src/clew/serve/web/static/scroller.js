// A long list that keeps only the items near the window in the document.
// Items are grouped in pieces of 16. A piece far from the window is replaced by an empty box of the
// same height. Changes above the window do not move what the reader sees.

import { h } from './dom.js';

const PIECE = 16;
const GUESS_PX = 72;
// Pieces within this many window heights are drawn; those beyond twice as many are emptied.
const NEAR = 1;

export class Scroller {
	/** `draw` returns an item's element; `atTop` is called when the beginning is near the window. */
	constructor({ label, draw, atTop, moved }) {
		this.draw = draw;
		this.atTop = atTop;
		this.moved = moved;
		this.pieces = [];
		this.sticks = true;
		this.list = h('div', { class: 'rows' });
		this.foot = h('div', { class: 'foot' });
		this.element = h('div', { class: 'scroller', tabindex: '0', role: 'log', 'aria-live': 'off', 'aria-label': label }, this.list, this.foot);
		this.element.addEventListener('scroll', () => this.scrolled(), { passive: true });
		// Keep the end visible when the window is resized.
		this.sizes = new ResizeObserver(() => this.settle());
		this.sizes.observe(this.element);
	}

	close() {
		this.sizes.disconnect();
		cancelAnimationFrame(this.frame);
	}

	scrolled() {
		const { scrollTop, scrollHeight, clientHeight } = this.element;
		const stuck = this.sticks;
		this.sticks = scrollHeight - scrollTop - clientHeight < 48;
		// While the end grows, everything near it is already drawn.
		if (stuck && this.sticks) return;
		this.moved?.(this.sticks);
		this.later();
	}

	later() {
		this.frame ??= requestAnimationFrame(() => {
			this.frame = undefined;
			this.refresh();
		});
	}

	settle() {
		if (this.sticks) this.element.scrollTop = this.element.scrollHeight;
		this.later();
	}

	toEnd() {
		this.sticks = true;
		this.element.scrollTop = this.element.scrollHeight;
		this.refresh();
		this.element.scrollTop = this.element.scrollHeight;
		this.moved?.(true);
	}

	makePiece(items) {
		const piece = { items, element: h('div', { class: 'piece' }), isDrawn: false, height: 0 };
		piece.element.style.height = `${items.length * GUESS_PX}px`;
		for (const item of items) item.piece = piece;
		return piece;
	}

	append(items) {
		if (!items.length) return;
		this.keepPlace(() => {
			for (const item of items) {
				let piece = this.pieces.at(-1);
				if (!piece || piece.items.length >= PIECE) {
					piece = this.makePiece([]);
					this.pieces.push(piece);
					this.list.append(piece.element);
					// Of many pieces, draw only those near the window.
					if (items.length <= PIECE) this.fill(piece);
				}
				piece.items.push(item);
				item.piece = piece;
				if (piece.isDrawn) piece.element.append(this.make(item));
				else piece.element.style.height = `${piece.items.length * GUESS_PX}px`;
			}
		});
	}

	prepend(items) {
		if (!items.length) return;
		this.keepPlace(() => {
			for (let end = items.length; end > 0; end -= PIECE) {
				const piece = this.makePiece(items.slice(Math.max(0, end - PIECE), end));
				this.pieces.unshift(piece);
				this.list.prepend(piece.element);
			}
		});
		this.refresh();
	}

	/** Redraw changed items that are in the document. */
	update(items) {
		const drawn = [...items].filter((item) => item.element?.isConnected);
		if (!drawn.length) return;
		this.keepPlace(() => {
			for (const item of drawn) {
				const old = item.element;
				const focus = old.contains(document.activeElement);
				const next = this.make(item);
				old.replaceWith(next);
				if (focus) next.querySelector('summary, button, [tabindex]')?.focus({ preventScroll: true });
			}
		});
	}

	make(item) {
		item.element = this.draw(item);
		return item.element;
	}

	fill(piece) {
		if (piece.isDrawn) return;
		piece.isDrawn = true;
		piece.element.style.height = '';
		piece.element.replaceChildren(...piece.items.map((item) => this.make(item)));
	}

	empty(piece) {
		if (!piece.isDrawn || piece.element.contains(document.activeElement)) return;
		piece.element.style.height = `${piece.element.offsetHeight}px`;
		piece.isDrawn = false;
		for (const item of piece.items) item.element = null;
		piece.element.replaceChildren();
	}

	/** Run `change`, which may change heights, without moving what the reader sees. */
	keepPlace(change) {
		if (this.sticks) {
			change();
			this.element.scrollTop = this.element.scrollHeight;
			return;
		}
		const anchor = this.findAnchor();
		const before = anchor?.getBoundingClientRect().top;
		change();
		if (anchor?.isConnected) this.element.scrollTop += anchor.getBoundingClientRect().top - before;
	}

	findAnchor() {
		const top = this.element.getBoundingClientRect().top;
		for (const piece of this.pieces) {
			if (piece.element.getBoundingClientRect().bottom <= top) continue;
			if (!piece.isDrawn) return piece.element;
			return [...piece.element.children].find((row) => row.getBoundingClientRect().bottom > top) ?? piece.element;
		}
		return null;
	}

	/** Draw the pieces near the window, and empty those far from it. */
	refresh() {
		const { scrollTop, clientHeight } = this.element;
		const reach = Math.max(400, clientHeight) * NEAR;
		const places = this.pieces.map((piece) => [piece, piece.element.offsetTop, piece.element.offsetHeight]);
		const near = places.filter(([, top, height]) => top + height > scrollTop - reach && top < scrollTop + clientHeight + reach);
		const far = places.filter(([, top, height]) => top + height < scrollTop - 3 * reach || top > scrollTop + clientHeight + 3 * reach);
		const missing = near.filter(([piece]) => !piece.isDrawn);
		if (missing.length || far.some(([piece]) => piece.isDrawn)) {
			this.keepPlace(() => {
				for (const [piece] of missing) this.fill(piece);
				for (const [piece] of far) this.empty(piece);
			});
			if (missing.length) this.later();
		}
		if (scrollTop < reach) this.atTop?.();
	}

	show(item) {
		this.sticks = false;
		this.fill(item.piece);
		item.piece.element.scrollIntoView({ block: 'start' });
		this.refresh();
		item.element?.scrollIntoView({ block: 'center' });
		this.later();
	}
}
