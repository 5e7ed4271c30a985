import { describe, expect, it } from 'vitest';

import { banner, type BannerFacts } from '../../../src/cli/banner.ts';
import type { BackendHealth } from '../../../src/domain/fleet.ts';
import { logFields } from '../../support/log-fields.ts';
import { createLog, type LogFormat } from '../../../src/platform/log.ts';
import { finish, role, text, usage } from '../../support/events.ts';
import { observe } from '../../support/observe.ts';
import { sampleBackend } from '../../support/sample.ts';

const record = observe({ engine: 'vllm' }, [
  [100, role()],
  [150, text('a')],
  [170, text('b')],
  [180, finish('stop') + usage(12, 2, { prompt_tokens_details: { cached_tokens: 8 } })],
]);

const shown = (facts: Partial<BannerFacts>, healths: readonly BackendHealth[] = ['up']) =>
  banner({
    data: 'http://127.0.0.1:1',
    admin: 'http://127.0.0.1:2',
    fleet: { atMs: 1, backends: healths.map((health) => sampleBackend('a', { health })) },
    demo: undefined,
    requestLog: 'logfmt',
    downIntervalMs: 1000,
    asksForKeys: false,
    batchPlace: undefined,
    program: 'warmlane',
    ...facts,
  });

describe('banner', () => {
  it.each<LogFormat>(['logfmt', 'json'])(
    'shows the form of the %s line by names that the line really has, in its order',
    (format) => {
      const lines: string[] = [];
      createLog({ level: 'info', format }, (line) => lines.push(line)).info('request', logFields(record));
      const sample =
        shown({ requestLog: format })
          .split('\n')
          .find((line) => line.includes('…')) ?? '';
      const parts = sample.split(/[ …]+/).filter((part) => /[=:]/.test(part));
      expect(parts.length).toBe(7);
      let at = 0;
      for (const part of parts) {
        at = lines.join('').indexOf(part, at);
        expect(at, part).toBeGreaterThan(0);
      }
    },
  );

  it('promises no line where none is written', () => {
    expect(shown({ requestLog: undefined })).not.toContain('ttftMs');
  });

  it('says what to do while no backend is up, and still shows the line to paste', () => {
    const printed = shown({}, ['down', 'down']);
    expect(printed).toContain('start one; warmlane looks again every second.');
    expect(printed.indexOf('start one')).toBeLessThan(
      printed.indexOf('curl -N http://127.0.0.1:1/v1/chat/completions'),
    );
    expect(shown({ downIntervalMs: 500 }, ['down'])).toContain('start it; warmlane looks again every 500 ms.');
    expect(shown({}, ['down', 'loading'])).toContain('No model is loaded yet');
    for (const health of ['up', 'auth'] as const) expect(shown({}, ['down', health])).not.toContain('looks again');
  });

  it('shows the line to paste with a key where one is asked for, and whose that is', () => {
    const lines = shown({ asksForKeys: true }).split('\n');
    const at = lines.findIndex((line) => line.includes('curl -N'));
    expect(lines.slice(at, at + 3)).toEqual([
      "  curl -N http://127.0.0.1:1/v1/chat/completions -H 'content-type: application/json' \\",
      '    -H "Authorization: Bearer $KEY" \\',
      expect.stringMatching(/^ {4}-d '\{"model":.*\}'$/),
    ]);
    expect(lines[at + 3]).toContain('auth.keys');
    expect(shown({})).not.toMatch(/\$KEY|auth\.keys/);
  });

  it('says whether there is a Batch API, and where it keeps what it has', () => {
    expect(shown({ batchPlace: '/var/batches (SQLite)' })).toContain(
      'Batch API: http://127.0.0.1:1/v1/batches, kept in /var/batches (SQLite); warmlane batch --help; how they stand: http://127.0.0.1:2/batches\n',
    );
    expect(shown({})).not.toContain('Batch');
  });

  it('says whether the demo sends anything itself: it has no key', () => {
    expect(shown({ demo: 'asked' })).toContain('simulated, and so is some traffic:');
    const keyed = shown({ demo: 'asked', asksForKeys: true });
    expect(keyed).toContain('simulated, and the demo sends no traffic of its own, as auth asks for a key:');
  });

  it('names the program as it was started', () => {
    expect(shown({ demo: 'nothing_found', program: 'npm start --' })).toContain(
      'With your own servers: npm start -- --backend http://127.0.0.1:8000',
    );
  });
});
