/** An nginx with its defaults, buffering included, in front of or behind warmlane. */
import { spawn, spawnSync } from 'node:child_process';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { connect, createServer, type AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

export const hasNginx: boolean = spawnSync('nginx', ['-v']).status === 0;

export interface Nginx {
  readonly port: number;
  close(): Promise<void>;
}

/**
 * @param tls files of a certificate; then HTTP/2 is offered
 * @param more directives of its one location
 */
export async function startNginx(
  backendPort: number,
  tls?: { readonly certFile: string; readonly keyFile: string },
  more = '',
): Promise<Nginx> {
  const folder = mkdtempSync(join(tmpdir(), 'warmlane-nginx-'));
  const port = await freePort();
  const temporary = ['client_body', 'proxy', 'fastcgi', 'uwsgi', 'scgi'].map(
    (name) => `${name}_temp_path ${folder}/${name};`,
  );
  const secured =
    tls === undefined ? '' : ` ssl http2; ssl_certificate ${tls.certFile}; ssl_certificate_key ${tls.keyFile}`;
  writeFileSync(
    join(folder, 'nginx.conf'),
    `${process.getuid?.() === 0 ? 'user root;' : ''} daemon off; worker_processes 1; error_log stderr error; pid ${folder}/nginx.pid;
events {}
http { access_log off; ${temporary.join(' ')}
server { listen 127.0.0.1:${port}${secured}; location / { proxy_pass http://127.0.0.1:${backendPort}; ${more} } } }
`,
  );
  const nginx = spawn('nginx', ['-p', folder, '-c', join(folder, 'nginx.conf')], {
    stdio: ['ignore', 'ignore', 'pipe'],
  });
  let said = '';
  nginx.stderr.on('data', (bytes: Buffer) => (said += bytes.toString()));
  const exited = new Promise<void>((resolve) => nginx.once('exit', () => resolve()));
  for (let tries = 0; !(await answers(port)); tries += 1) {
    if (tries > 100 || nginx.exitCode !== null) throw new Error(`nginx did not start: ${said}`);
    await new Promise((resolve) => void setTimeout(resolve, 30));
  }
  return {
    port,
    async close() {
      nginx.kill('SIGTERM');
      await exited;
      rmSync(folder, { recursive: true, force: true });
    },
  };
}

async function freePort(): Promise<number> {
  const server = createServer();
  await new Promise<void>((resolve) => void server.listen(0, '127.0.0.1', resolve));
  const { port } = server.address() as AddressInfo;
  await new Promise((resolve) => void server.close(resolve));
  return port;
}

function answers(port: number): Promise<boolean> {
  return new Promise((resolve) => {
    const socket = connect(port, '127.0.0.1');
    socket.once('connect', () => {
      socket.destroy();
      resolve(true);
    });
    socket.once('error', () => resolve(false));
  });
}
