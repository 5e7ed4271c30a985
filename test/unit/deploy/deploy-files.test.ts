/**
 * What can be told of deploy/ with Node alone: paths, ports, health checks and stop times that must agree with each other
 * and with the program. `deploy/check.sh` runs the tools that read these files.
 */
import { spawnSync } from 'node:child_process';
import { chmodSync, existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { parse, parseDocument } from 'yaml';
import { describe, expect, it } from 'vitest';

import { parseArguments } from '../../../src/cli/args.ts';
import { variables } from '../../../src/config/environment.ts';
import { loadConfig } from '../../../src/config/load.ts';

const root = new URL('../../../', import.meta.url);
const text = (path: string): string => readFileSync(new URL(path, root), 'utf8');

const manifest = JSON.parse(text('package.json')) as {
  readonly version: string;
  readonly bin: { readonly warmlane: string };
  readonly engines: { readonly node: string };
  readonly files: readonly string[];
  readonly scripts: { readonly build: string };
};
const defaults = loadConfig({ env: {}, flags: {} });
if (!defaults.ok) throw new Error('the defaults are wrong');
const { http } = defaults.config;
const known: ReadonlySet<string> = new Set(Object.values(variables));

describe('package.json', () => {
  it('builds a program that a clone can run by its name: npm makes it executable only where it installs it', () => {
    const folder = mkdtempSync(join(tmpdir(), 'warmlane-test-'));
    try {
      const program = join(folder, manifest.bin.warmlane);
      mkdirSync(dirname(program));
      writeFileSync(program, '');
      chmodSync(program, 0o644);
      const [, afterwards = ''] = manifest.scripts.build.split(' && ');
      expect(afterwards).toMatch(/^node -e /);
      expect(spawnSync(afterwards, { cwd: folder, shell: true }).status).toBe(0);
      expect(statSync(program).mode & 0o777).toBe(0o755);
    } finally {
      rmSync(folder, { recursive: true });
    }
  });
});

describe('Dockerfile', () => {
  const file = text('deploy/Dockerfile');
  const instructions = file
    .replace(/^#.*\n/gm, '')
    .replace(/\\\n/g, ' ')
    .split('\n')
    .filter((line) => line !== '');
  const of = (name: string) =>
    instructions.filter((line) => line.startsWith(`${name} `)).map((line) => line.slice(name.length + 1));

  it('runs on a Node that the package allows', () => {
    const version = Number(/^NODE_VERSION=(\d+)$/.exec(of('ARG')[0] ?? '')?.[1]);
    expect(version).toBeGreaterThanOrEqual(Number(/\d+/.exec(manifest.engines.node)?.[0]));
    for (const base of of('FROM')) expect(base).toMatch(/^node:\$\{NODE_VERSION\}-/);
  });

  it("starts the package's own entry point, as process 1", () => {
    expect(JSON.parse(of('ENTRYPOINT')[0] ?? '')).toEqual(['node', manifest.bin.warmlane]);
  });

  it('is not root, and says so after the last thing that needs to be', () => {
    expect(of('USER')).toEqual(['node']);
    const user = instructions.findIndex((line) => line.startsWith('USER'));
    expect(instructions.slice(user).some((line) => /^(RUN|COPY) /.test(line))).toBe(false);
  });

  it('copies only what is there and not ignored', () => {
    const allowed = text('deploy/Dockerfile.dockerignore')
      .split('\n')
      .filter((line) => line.startsWith('!'))
      .map((line) => line.slice(1));
    const sources = of('COPY')
      .filter((line) => !line.startsWith('--from'))
      .flatMap((line) => line.split(' ').slice(0, -1));
    expect(sources.length).toBeGreaterThan(5);
    for (const source of sources) {
      const path = source.replace(/^\.\//, '');
      expect(existsSync(new URL(path, root)), source).toBe(true);
      expect(allowed, source).toContain(path);
    }
    expect(new Set(sources.map((source) => source.replace(/^\.\//, '')))).toEqual(new Set(allowed));
  });

  it('asks for its health where it listens, without calling a model', () => {
    const listen = of('ENV').find((line) => line.startsWith('WARMLANE_LISTEN='));
    expect(listen).toBe(`WARMLANE_LISTEN=0.0.0.0:${http.listen.port}`);
    expect(of('EXPOSE')).toEqual([String(http.listen.port)]);
    const check = JSON.parse(/CMD (\[.*\])/.exec(of('HEALTHCHECK')[0] ?? '')?.[1] ?? '[]') as string[];
    expect(check.slice(0, 2)).toEqual(['node', '-e']);
    expect(check[2]).toContain(`http://127.0.0.1:${http.listen.port}/livez`);
    // eslint-disable-next-line typescript/no-implied-eval -- only parsed, to find a slip in the one-liner
    expect(() => new Function(check[2] ?? '(')).not.toThrow();
  });

  it('sets no variable that warmlane does not know', () => {
    const names = [...file.matchAll(/WARMLANE_[A-Z_]+/g)].map(([name]) => name);
    expect(names.filter((name) => !known.has(name))).toEqual([]);
  });
});

describe('compose.yaml', () => {
  const source = text('deploy/compose.yaml');
  const compose = parse(source) as {
    readonly services: Readonly<Record<string, Readonly<Record<string, unknown>>>>;
  };
  const warmlane = compose.services['warmlane'] ?? {};
  const llama = compose.services['llama'] ?? {};

  it('is YAML without faults', () => {
    const document = parseDocument(source, { strict: true });
    expect([...document.errors, ...document.warnings]).toEqual([]);
  });

  it('gives warmlane an environment that loads, and points it at llama-server', () => {
    const env = warmlane['environment'] as Record<string, string>;
    const loaded = loadConfig({ env, flags: {} });
    expect(loaded).toMatchObject({ ok: true, config: { fleet: { backends: [{ url: 'http://llama:8080' }] } } });
    const command = llama['command'] as string[];
    expect(command[command.indexOf('--port') + 1]).toBe('8080');
    expect(command).toContain('--metrics');
    expect(command).toContain('--threads-http');
  });

  it('publishes on loopback only', () => {
    expect(warmlane['ports']).toEqual([
      `127.0.0.1:${http.listen.port}:${http.listen.port}`,
      `127.0.0.1:${http.admin.port}:${http.admin.port}`,
    ]);
    expect(llama).not.toHaveProperty('ports');
  });

  it('waits longer for the end than streams are given', () => {
    expect(Number.parseInt(String(warmlane['stop_grace_period']), 10) * 1000).toBeGreaterThan(http.drainMs);
  });
});

describe('warmlane.service', () => {
  const unit = text('deploy/systemd/warmlane.service');
  const setting = (name: string) => new RegExp(`^${name}=(.*)$`, 'm').exec(unit)?.[1] ?? '';

  it('starts with a command line that warmlane understands', () => {
    const [program, ...argv] = setting('ExecStart').split(' ');
    expect(program).toMatch(/\/warmlane$/);
    expect(parseArguments(argv)).toEqual({ kind: 'serve', file: '/etc/warmlane/warmlane.yaml', flags: {} });
  });

  it('waits longer for the end than streams are given', () => {
    expect(Number(setting('TimeoutStopSec')) * 1000).toBeGreaterThan(http.drainMs);
  });

  it('lets V8 compile', () => {
    expect(unit).not.toMatch(/^MemoryDenyWriteExecute=(yes|true|1)/m);
  });
});

describe('fronts', () => {
  const address = `127.0.0.1:${http.listen.port}`;

  it.each(['deploy/nginx.conf', 'deploy/Caddyfile', 'deploy/haproxy.cfg'])(
    '%s leads to where warmlane listens',
    (path) => {
      const file = text(path).replace(/^\s*#.*$/gm, '');
      expect(file).toContain(address);
      expect(file.match(/127\.0\.0\.1:\d+/g)).toEqual([address]);
    },
  );

  it('C095 C096 nginx buffers nothing, and tells a second nginx so', () => {
    const file = text('deploy/nginx.conf');
    for (const line of [
      'proxy_buffering off;',
      'proxy_request_buffering off;',
      'proxy_pass_header X-Accel-Buffering;',
    ]) {
      expect(file).toContain(line);
    }
    expect(file).toContain(`client_max_body_size ${http.maxBodyBytes / 1024 / 1024}m;`);
  });

  it('Caddy keeps its own flushing: -1 would let abandoned requests run on', () => {
    expect(text('deploy/Caddyfile').replace(/^\s*#.*$/gm, '')).not.toContain('flush_interval');
  });

  it('HAProxy passes tokens and aborts on', () => {
    const file = text('deploy/haproxy.cfg');
    expect(file).toMatch(/^ {4}option http-no-delay$/m);
    expect(file).toMatch(/^ {4}option abortonclose$/m);
  });
});

describe('the package', () => {
  it('ships files that are there', () => {
    const made = new Set(['dist', 'README.md']);
    const named = manifest.files.filter((path) => !path.includes('*') && !path.startsWith('!') && !made.has(path));
    expect(named.filter((path) => !existsSync(new URL(path, root)))).toEqual([]);
  });

  it('ships every page of deploy/ and src/ that its README leads to', () => {
    const linked = [...text('README.md').matchAll(/\]\(((?:deploy|src|config)\/[^)#]*)/g)].map(([, path = '']) => path);
    expect(linked.length).toBeGreaterThan(3);
    const shipped = (path: string) =>
      manifest.files.includes(path) ||
      path.startsWith('config/') ||
      (/^deploy\/[^/]+\.md$/.test(path) && manifest.files.includes('deploy/*.md'));
    expect(
      linked.map((path) => (path.endsWith('/') ? `${path}README.md` : path)).filter((path) => !shipped(path)),
    ).toEqual([]);
  });

  it('has its version in the changelog', () => {
    expect(text('deploy/CHANGELOG.md')).toContain(`\n## [${manifest.version}]`);
  });
});
