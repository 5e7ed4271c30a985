/**
 * The naive relay that the bench compares with: what one writes in ten minutes with Hono, `fetch` and a `Response` around the body.
 * Correct enough for the bench's traffic, no more. usage: node fetch-proxy.mjs PORT BACKEND_URL
 */
import { serve } from '@hono/node-server';
import { Hono } from 'hono';

const [port, backendUrl] = process.argv.slice(2);
const app = new Hono();

app.all('*', async (c) => {
  const { method, headers, url, body } = c.req.raw;
  const { pathname, search } = new URL(url);
  const passed = new Headers(headers);
  for (const name of ['host', 'connection', 'content-length', 'transfer-encoding']) passed.delete(name);
  const answer = await fetch(`${backendUrl}${pathname}${search}`, { method, headers: passed, body, duplex: 'half' });
  return new Response(answer.body, { status: answer.status, headers: answer.headers });
});

serve({ fetch: app.fetch, hostname: '127.0.0.1', port: Number(port) });
