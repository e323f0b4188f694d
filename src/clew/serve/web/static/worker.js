// Caches the page's own files for offline use. Contents of sessions are never cached here.

const SHELF = 'clew-page';
const FILES = ['/', ...['tokens.css', 'app.css', 'main.js', 'dom.js', 'net.js', 'seal.js', 'session.js', 'transcript.js', 'rows.js', 'cards.js', 'composer.js', 'markdown.js', 'code.js', 'scroller.js', 'local.js', 'share.js', 'icon.svg', 'app.webmanifest'].map((name) => `/web/${name}`)];

self.addEventListener('install', (event) => {
	event.waitUntil(caches.open(SHELF).then((cache) => cache.addAll(FILES)).then(() => self.skipWaiting()));
});

self.addEventListener('activate', (event) => event.waitUntil(self.clients.claim()));

self.addEventListener('fetch', (event) => {
	const url = new URL(event.request.url);
	const isFile = url.pathname === '/' || url.pathname.startsWith('/web/');
	if (event.request.method !== 'GET' || url.origin !== location.origin || !isFile) return;
	event.respondWith(fetch(event.request).catch(async (error) => {
		const kept = await (await caches.open(SHELF)).match(url.pathname);
		if (kept) return kept;
		throw error;
	}));
});

// The page requests this when it is idle, so that the cached files are those that it runs.
self.addEventListener('message', (event) => {
	if (event.data === 'keep') event.waitUntil(caches.open(SHELF).then((cache) => cache.addAll(FILES)));
});
