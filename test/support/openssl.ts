/** Certificates made by `openssl` when the tests run, and a TLS front for a backend that speaks plain HTTP. */
import { execFileSync, spawnSync } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { connect, type AddressInfo, type Socket } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createServer, type TLSSocket } from 'node:tls';

export const hasOpenssl: boolean = spawnSync('openssl', ['version']).status === 0;

export interface Certificate {
  readonly cert: string;
  readonly key: string;
  readonly certFile: string;
  readonly keyFile: string;
}

export interface Authority {
  /** PEM of the authority that signed all of them. */
  readonly ca: string;
  readonly caFile: string;
  /** Folder of all files. */
  readonly folder: string;
  /** @param names alternative names, `DNS:…` or `IP:…` */
  sign(...names: readonly string[]): Certificate;
  remove(): void;
}

export function createAuthority(): Authority {
  const folder = mkdtempSync(join(tmpdir(), 'warmlane-tls-'));
  const run = (...options: string[]) => void execFileSync('openssl', options, { cwd: folder, stdio: 'pipe' });
  const newKey = ['-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:P-256', '-nodes'];
  run('req', '-x509', ...newKey, '-days', '2', '-subj', '/CN=test authority', '-keyout', 'ca.key', '-out', 'ca.pem');
  let signed = 0;
  return {
    ca: readFileSync(join(folder, 'ca.pem'), 'utf8'),
    caFile: join(folder, 'ca.pem'),
    folder,
    sign(...names) {
      signed += 1;
      const name = `leaf${signed}`;
      writeFileSync(join(folder, `${name}.ext`), `subjectAltName=${names.join(',')}\n`);
      run('req', ...newKey, '-subj', '/CN=leaf', '-keyout', `${name}.key`, '-out', `${name}.csr`);
      const by = ['-CA', 'ca.pem', '-CAkey', 'ca.key', '-CAcreateserial', '-days', '2'];
      run('x509', '-req', '-in', `${name}.csr`, ...by, '-extfile', `${name}.ext`, '-out', `${name}.pem`);
      const [certFile, keyFile] = [join(folder, `${name}.pem`), join(folder, `${name}.key`)];
      return { cert: readFileSync(certFile, 'utf8'), key: readFileSync(keyFile, 'utf8'), certFile, keyFile };
    },
    remove: () => rmSync(folder, { recursive: true, force: true }),
  };
}

export interface TlsFront {
  readonly port: number;
  /** Name that each connection asked for (SNI); false: none. */
  readonly names: readonly (string | false)[];
  close(): Promise<void>;
}

/** Takes TLS connections and passes their bytes on to a port of this machine. */
export async function createTlsFront(port: number, { cert, key }: Certificate): Promise<TlsFront> {
  const names: (string | false)[] = [];
  const sockets = new Set<Socket>();
  const server = createServer({ cert, key }, (client: TLSSocket) => {
    names.push(client.servername ?? false);
    const backend = connect(port, '127.0.0.1');
    for (const [socket, other] of [
      [client, backend],
      [backend, client],
    ] as const) {
      sockets.add(socket);
      socket.on('error', () => other.destroy());
      socket.on('close', () => {
        sockets.delete(socket);
        other.destroySoon();
      });
    }
    client.pipe(backend);
    backend.pipe(client);
  });
  // A handshake that fails is what some tests are about.
  server.on('tlsClientError', () => {});
  await new Promise<void>((resolve) => void server.listen(0, '127.0.0.1', resolve));
  return {
    port: (server.address() as AddressInfo).port,
    names,
    close: () =>
      new Promise((resolve) => {
        server.close(() => resolve());
        for (const socket of sockets) socket.destroy();
      }),
  };
}
