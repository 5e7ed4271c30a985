import fc from 'fast-check';
import { expect, it } from 'vitest';
import { labelsOf } from '../../../src/fleet/metric-labels.ts';

it('reads the labels of each series of a metric, and of no other', () => {
  const text =
    '# TYPE a:info gauge\na:info{engine="0",block_size="16"} 1.0\na:info_more{engine="9"} 1\n' +
    'b{help="a:info{engine=7}"} 1\na:info{ engine="1" , empty="", } 1.0\n';
  expect(labelsOf(text, 'a:info').map((labels) => Object.fromEntries(labels))).toEqual([
    { engine: '0', block_size: '16' },
    { engine: '1', empty: '' },
  ]);
});

it('gives back what was escaped', () => {
  fc.assert(
    fc.property(fc.string({ unit: 'binary' }), fc.string(), (first, second) => {
      const escape = (value: string) => value.replaceAll('\\', '\\\\').replaceAll('"', '\\"').replaceAll('\n', '\\n');
      const text = `x 1\nm{first="${escape(first)}",second="${escape(second)}"} 1\n`;
      expect(labelsOf(text, 'm').map((labels) => [...labels.values()])).toEqual([[first, second]]);
    }),
  );
});

it('text that is cut off gives what is whole', () => {
  expect(labelsOf('m{a="1",b="2', 'm').map((labels) => Object.fromEntries(labels))).toEqual([{ a: '1' }]);
  expect(labelsOf('', 'm')).toEqual([]);
});
