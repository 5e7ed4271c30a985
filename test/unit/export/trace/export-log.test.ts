import { describe, expect, it } from 'vitest';

import { createExportLog } from '../../../../src/export/trace/export-log.ts';
import { createLog } from '../../../../src/platform/log.ts';
import { createFakeClock } from '../../../support/fake-clock.ts';

function rig() {
  const lines: Record<string, unknown>[] = [];
  const log = createLog({ level: 'debug', format: 'json' }, (line) =>
    lines.push(JSON.parse(line) as Record<string, unknown>),
  );
  const clock = createFakeClock();
  return { lines, clock, exportLog: createExportLog({ log, clock }) };
}

describe('what the log says of exports', () => {
  it('is one line a minute while they fail, with all that was lost, and one when they work again', () => {
    const { lines, clock, exportLog } = rig();
    exportLog.note(5, undefined);
    expect(lines).toEqual([]);
    for (let second = 0; second < 90; second += 1) {
      exportLog.note(10, new Error('connect ECONNREFUSED'));
      clock.advance(1000);
    }
    expect(lines.map(({ level, lost }) => [level, lost])).toEqual([
      ['warn', 10],
      ['warn', 610],
    ]);
    expect(lines[0]?.['error']).toBe('connect ECONNREFUSED');
    exportLog.note(10, undefined);
    exportLog.note(10, undefined);
    expect(lines.slice(2).map(({ level, lost }) => [level, lost])).toEqual([['info', 900]]);
  });

  it('leaves a failed export of metrics to their own log', () => {
    const { lines, exportLog } = rig();
    exportLog.heard('{"stack":"Error: PeriodicExportingMetricReader: metrics export failed (error Not Found)"}', []);
    expect(lines).toEqual([]);
  });

  it('counts what a collector took and refused', () => {
    const { lines, exportLog } = rig();
    const said = JSON.stringify({ rejectedSpans: '7', errorMessage: 'too many' });
    exportLog.heard('Received Partial Success response:', [said]);
    exportLog.note(10, undefined);
    exportLog.heard('Received Partial Success response:', [JSON.stringify({ rejectedSpans: 2 })]);
    exportLog.note(10, undefined);
    expect(exportLog.rejected()).toBe(9);
    expect(lines).toHaveLength(1);
    expect(lines[0]).toMatchObject({ msg: 'the collector refused spans', spans: 7, message: 'too many' });
  });

  it.each(['not json', '{"rejectedSpans":"x"}', '{"rejectedSpans":"-5"}', '{}'])(
    'counts nothing of what it can’t read: %s',
    (json) => {
      const { exportLog } = rig();
      exportLog.heard('Received Partial Success response:', [json]);
      exportLog.note(10, undefined);
      expect(exportLog.rejected()).toBe(0);
    },
  );

  it('never counts more refused spans than were sent, whatever a collector claims', () => {
    const { exportLog } = rig();
    exportLog.heard('Received Partial Success response:', ['{"rejectedSpans":"999999999"}']);
    exportLog.note(10, undefined);
    exportLog.note(10, undefined);
    expect(exportLog.rejected()).toBe(10);
  });

  it('tells refused metrics and mere warnings from refused spans', () => {
    const { lines, clock, exportLog } = rig();
    for (const said of [{ rejectedDataPoints: '3', errorMessage: 'old' }, { errorMessage: 'slow down' }]) {
      exportLog.heard('Received Partial Success response:', [JSON.stringify(said)]);
      clock.advance(60_000);
    }
    expect(lines).toMatchObject([
      { msg: 'the collector refused metrics', points: 3, message: 'old' },
      { msg: 'the collector warns', message: 'slow down' },
    ]);
  });

  it('leaves failed exports of metrics to their own line', () => {
    const { lines, exportLog } = rig();
    exportLog.heard('{"stack":"Error: PeriodicExportingMetricReader: metrics export failed (error …)"}', []);
    expect(lines).toEqual([]);
  });

  it('repeats no credentials of an endpoint that the library complains of', () => {
    const { lines, exportLog } = rig();
    exportLog.heard("Could not parse environment-provided export URL: 'http://user:secret@c:99999'", []);
    expect(lines[0]?.['message']).toBe("Could not parse environment-provided export URL: 'http://c:99999'");
  });

  it('passes on the library’s own warnings, short', () => {
    const { lines, exportLog } = rig();
    exportLog.heard('something', [new Error('x'.repeat(1000))]);
    expect(lines[0]).toMatchObject({ level: 'warn', msg: 'OpenTelemetry' });
    expect(String(lines[0]?.['message']).length).toBeLessThan(400);
  });
});
