// Caches the page's own files for offline use, and shows pushes. Contents of sessions are never cached.

const SHELF = 'clew-page';

/** Cache the page and the files that it names, and drop those of other versions. */
async function keep() {
	const cache = await caches.open(SHELF);
	const page = await fetch('/', { cache: 'no-cache' });
	const text = await page.clone().text();
	const files = [...new Set([...text.matchAll(/"(\/web\/[^"]+)"/g)].map((found) => found[1]))];
	const kept = new Set((await cache.keys()).map((request) => new URL(request.url).pathname));
	// The names of scripts and styles contain a hash; icons may have changed.
	await cache.addAll(files.filter((name) => !kept.has(name) || name.split('/').length < 4));
	await cache.put('/', page);
	for (const name of kept) if (name !== '/' && !files.includes(name)) await cache.delete(name);
}

self.addEventListener('install', (event) => event.waitUntil(keep().then(() => self.skipWaiting())));

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
	if (event.data === 'keep') event.waitUntil(keep());
});

self.addEventListener('push', (event) => {
	const { session, title, body } = event.data?.json() ?? {};
	event.waitUntil(self.registration.showNotification(title || 'clew', { body, tag: session, data: session, icon: '/web/icon-180.png' }));
});

// Show the session that waits, in an open page if there is one.
self.addEventListener('notificationclick', (event) => {
	event.notification.close();
	const session = String(event.notification.data ?? '');
	const path = /^[0-9a-f-]{36}$/.test(session) ? `/#/s/${session}` : '/';
	event.waitUntil(self.clients.matchAll({ type: 'window' }).then(async ([page]) => {
		if (!page) return self.clients.openWindow(path);
		await page.focus().catch(() => {});
		return page.navigate(path);
	}));
});
