/** Starts the load's client (`client.mjs`) in a process of its own and takes its one line of results. */
import { join } from 'node:path';

import { pinned, spawnCommand } from '../processes.mjs';

/**
 * @param {import('./client.mjs').Ask} ask @param {number} [core] to pin it to
 * @returns {Promise<import('./figures.mjs').ClientResult>} rejects when the client failed, or took far longer than the load
 */
export function runClient(ask, core) {
  return new Promise((resolve, reject) => {
    const command = [process.execPath, join(import.meta.dirname, 'client.mjs'), JSON.stringify(ask)];
    const child = spawnCommand(pinned(core, command), ['ignore', 'pipe', 'inherit']);
    const limit = setTimeout(() => child.kill('SIGKILL'), (ask.seconds + 2 * ask.answerLimitSeconds + 30) * 1000);
    const end = () => child.kill('SIGTERM');
    process.once('exit', end);
    let text = '';
    child.stdout?.setEncoding('utf8').on('data', (part) => (text += part));
    child.on('error', reject);
    child.on('close', (code, signal) => {
      clearTimeout(limit);
      process.off('exit', end);
      if (code === 0) resolve(JSON.parse(text));
      else reject(new Error(`the client ended with ${signal ?? code}`));
    });
  });
}
