/**
 * Who stands between here and the engine, by the headers of an answer; and how each kind is told not to hold a stream
 * back. Pure.
 */

export interface Gateway {
  readonly name: string;
  /** The header that shows it. */
  readonly sign: string;
  /** How to make it pass events at once. */
  readonly unbuffer: string;
}

const general = 'turn response buffering and compression off for text/event-stream there';

const unbuffer: Readonly<Record<string, string>> = {
  nginx:
    'nginx: proxy_buffering off; (or let the upstream send X-Accel-Buffering: no), proxy_http_version 1.1, gzip off for text/event-stream',
  cloudflare: 'Cloudflare: send Cache-Control: no-transform and switch response buffering off for this host',
  caddy: 'Caddy: flush_interval -1 in reverse_proxy',
  apache: 'Apache: ProxyPass … flushpackets=on, and no mod_deflate on text/event-stream',
  envoy: 'Envoy: no buffer or compressor filter on this route',
  traefik: 'Traefik: no buffering or compress middleware on this route',
  haproxy: 'HAProxy: option http-no-delay, no compression for text/event-stream, no option http-buffer-request',
  litellm: 'LiteLLM: see that stream: true is passed on and no guardrail or callback waits for the whole answer',
  cloudfront: 'CloudFront: disable caching and compression for this path',
  aws: 'AWS load balancers pass streams on; API Gateway buffers: use response streaming or another front',
  warmlane: 'warmlane itself holds nothing back: look at what stands behind it',
};

/** Names by what a `server`, `via` or `x-powered-by` value begins with or holds. */
const products: readonly (readonly [pattern: RegExp, name: string])[] = [
  [/\bwarmlane\b/i, 'warmlane'],
  [/\b(nginx|openresty|tengine)\b/i, 'nginx'],
  [/\bcloudflare\b/i, 'cloudflare'],
  [/\bcaddy\b/i, 'caddy'],
  [/\bapache\b/i, 'apache'],
  [/\b(istio-)?envoy\b/i, 'envoy'],
  [/\btraefik\b/i, 'traefik'],
  [/\bhaproxy\b/i, 'haproxy'],
  [/\bcloudfront\b/i, 'cloudfront'],
  [/\b(awselb|amazon)/i, 'aws'],
  [/\bvarnish\b/i, 'varnish'],
  [/\bkong\b/i, 'kong'],
  [/\bgoogle\b|\bgws\b|\bESF\b/i, 'google'],
];

/** A header of its own that gives a gateway away, by the name's beginning. */
const signs: readonly (readonly [prefix: string, name: string])[] = [
  ['cf-ray', 'cloudflare'],
  ['x-litellm-', 'litellm'],
  ['x-envoy-', 'envoy'],
  ['x-amz-cf-', 'cloudfront'],
  ['x-amzn-', 'aws'],
  ['x-kong-', 'kong'],
  ['x-portkey-', 'portkey'],
  ['x-openrouter-', 'openrouter'],
  ['x-varnish', 'varnish'],
  ['fly-request-id', 'fly.io'],
  ['x-vercel-id', 'vercel'],
  ['x-azure-ref', 'azure front door'],
];

/** @param headers of one answer, names in lower case */
export function gatewaysIn(headers: Readonly<Record<string, string>>): readonly Gateway[] {
  const found = new Map<string, Gateway>();
  const add = (name: string, sign: string) => {
    if (!found.has(name)) found.set(name, { name, sign, unbuffer: unbuffer[name] ?? `${name}: ${general}` });
  };
  for (const key of ['via', 'server', 'x-powered-by']) {
    const value = headers[key];
    if (value === undefined) continue;
    for (const [pattern, name] of products) if (pattern.test(value)) add(name, `${key}: ${value}`);
  }
  for (const name of Object.keys(headers)) {
    for (const [prefix, gateway] of signs) if (name.startsWith(prefix)) add(gateway, `${name}: ${headers[name] ?? ''}`);
  }
  // A hop that names itself by something that isn't in the list.
  if (found.size === 0 && headers['via'] !== undefined) add('a proxy', `via: ${headers['via']}`);
  return [...found.values()];
}

/** What to do about a stream that is held back, by who is there. */
export function unbufferRemedy(gateways: readonly Gateway[]): string {
  const others = gateways.filter(({ name }) => name !== 'warmlane');
  if (others.length > 0) return others.map((gateway) => gateway.unbuffer).join('; ');
  if (gateways.length > 0) return `${unbuffer['warmlane'] ?? general}; ${general}`;
  return `a proxy on the way that doesn't show itself: ${general} (nginx: proxy_buffering off)`;
}
