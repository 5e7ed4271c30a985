import { describe, expect, it } from 'vitest';
import { createDivergenceTable } from '../../../../src/account/hits/divergence-table.ts';
import { partHead, partTools } from '../../../../src/domain/prefix.ts';
import { placeText, remedyText } from '../../../../src/account/hits/place-text.ts';
import { sampleNote } from '../../../support/sample-routing.ts';
import { sampleRecord } from '../../../support/sample-record.ts';

const place = (part: number, startBytes = 0) => ({ part, startBytes, endBytes: startBytes + 256 });
const record = (requestId: string, part: number, startBytes = 0) =>
  sampleRecord({ requestId, routing: sampleNote({ divergence: place(part, startBytes), reusableTokens: 100 }) });

describe('the table of places where prompts diverge', () => {
  it('counts requests, what they lose, and names the last few', () => {
    const table = createDivergenceTable({ maxRows: 10 });
    for (let i = 0; i < 5; i += 1) table.add(record(`r${i}`, 0), 'm', 10 * i);
    table.add(record('x', 1), 'm', 60);
    const { divergence: _none, ...note } = sampleNote();
    table.add(sampleRecord({ routing: note }), 'm', 70);
    table.add(sampleRecord(), 'm', 80);
    expect(table.rows()).toMatchObject([
      {
        model: 'm',
        place: place(0),
        requests: 5,
        promptTokens: 5000,
        lostTokens: 4500,
        examples: ['r2', 'r3', 'r4'],
        firstMs: 0,
        lastMs: 40,
      },
      { place: place(1), requests: 1 },
    ]);
  });

  it('takes the prompt as the engine counted it, where it told', () => {
    const table = createDivergenceTable({ maxRows: 10 });
    table.add({ ...record('r', 0), tokens: { prompt: { value: 1200, source: 'usage' } } }, 'm', 1);
    expect(table.rows()[0]).toMatchObject({ promptTokens: 1200, lostTokens: 1100 });
  });

  it('C149 stays bounded, and keeps the place where all differ though each conversation differs elsewhere, too', () => {
    const table = createDivergenceTable({ maxRows: 200 });
    for (let i = 0; i < 20_000; i += 1) {
      table.add(record(`c${i}`, i % 997, 256 * (i % 61)), 'm', i);
      if (i % 100 === 0) table.add(record(`t${i}`, 0, 1 << 20), 'm', i);
    }
    expect(table.rows()).toHaveLength(200);
    expect(table.dropped).toBeGreaterThan(1000);
    expect(table.rows().find((row) => row.place.startBytes === 1 << 20)?.requests).toBe(200);
  });

  it('remembers only a few of the prompts that differ early', () => {
    const table = createDivergenceTable({ maxRows: 2 });
    table.add(record('not early: nothing known follows', 0), 'm', 0);
    for (let i = 0; i < 100; i += 1) table.add({ ...record(`r${i}`, 0), assessment: { unstableAt: place(0) } }, 'm', i);
    expect(table.rows()[0]?.early).toHaveLength(32);
    expect(table.rows()[0]?.early.at(-1)).toEqual({ atMs: 99, promptTokens: 1000, lostTokens: 900 });
  });
});

describe('a place', () => {
  it('is told in words, with what to do', () => {
    expect(placeText(place(3, 512))).toBe('message 3, bytes 512–768');
    expect(placeText(place(partTools))).toBe('tools, bytes 0–256');
    expect(placeText(place(partHead))).toContain('before the messages');
    expect(remedyText(place(0))).toBe(
      'message 0 (mostly the system prompt), bytes 0–256 differ each time: move a timestamp, id or reordered tools behind the stable text',
    );
    expect(remedyText(place(2))).toContain('message 2, bytes 0–256 differ each time');
    expect(remedyText(place(partTools))).toContain('tools are sent in another order or changed');
    expect(remedyText(place(partHead))).toContain('template inputs');
  });
});
