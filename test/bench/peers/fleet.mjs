/**
 * A process of its own with a fleet of simulated vLLM servers, one port each; ends with SIGTERM. Loopback only.
 * What they did stands on their own /metrics pages. Needs the built program.
 * usage: node test/bench/peers/fleet.mjs FIRST_PORT COUNT KV_TOKENS
 */
import { dirname, join } from 'node:path';
import { pathToFileURL } from 'node:url';

import { mainFile } from '../candidates.mjs';
import { serverSettings } from './engines.mjs';

const [firstPort = Number.NaN, count = Number.NaN, kvTokens = Number.NaN] = process.argv.slice(2).map(Number);
const serverFile = pathToFileURL(join(dirname(mainFile), 'sim/server.js')).href;
/** @type {typeof import('../../../src/sim/server.ts')} */
const { createSimServer } = await import(serverFile);

for (let number = 0; number < count; number++) {
  await createSimServer(serverSettings(kvTokens, number), { port: firstPort + number });
}
process.once('SIGTERM', () => process.exit(0));
