import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { labelText, maxLabelLength } from '../../../../src/export/metrics/label-text.ts';
import { createModelLabels } from '../../../../src/export/metrics/model-labels.ts';

const limits = { maxUnknown: 3, maxPinned: 5 };

describe('labels of models', () => {
  it('C189 keep the names of the config and the backends, however many others came before', () => {
    const models = createModelLabels(limits);
    models.pin(['configured']);
    for (let i = 0; i < 2000; i += 1) models.labelFinished(`junk-${i}`);
    expect(models.labelOf('configured')).toBe('configured');
    expect(models.labelOf('junk-1')).toBe('junk-1');
    expect(models.labelOf('junk-3')).toBe('other');
    expect(models.labelOf('another')).toBe('other');
    expect(models.overflows).toBe(1997);
    models.pin(['another']);
    expect(models.labelOf('another')).toBe('another');
  });

  it('a name that has its label keeps it', () => {
    const models = createModelLabels(limits);
    expect(models.labelOf('first')).toBe('first');
    for (let i = 0; i < 10; i += 1) models.labelOf(`junk-${i}`);
    expect(models.labelOf('first')).toBe('first');
  });

  it('pins only so many: a backend may list without end', () => {
    const models = createModelLabels(limits);
    models.pin(Array.from({ length: 100 }, (_, i) => `m${i}`));
    expect(models.labelOf('m4')).toBe('m4');
    for (let i = 50; i < 53; i += 1) models.labelOf(`m${i}`);
    expect(models.labelOf('m60')).toBe('other');
  });

  it('without a name it is none', () => {
    expect(createModelLabels(limits).labelOf(undefined)).toBe('none');
    expect(createModelLabels(limits).labelOf('')).toBe('none');
  });
});

describe('label text', () => {
  it('C190 is short and has no control characters or halves of characters', () => {
    fc.assert(
      fc.property(fc.string({ unit: 'binary', maxLength: 400 }), (text) => {
        const label = labelText(text);
        expect(label.length).toBeLessThanOrEqual(maxLabelLength);
        // eslint-disable-next-line no-control-regex -- that is what is looked for
        expect(label).not.toMatch(/[\u0000-\u001f\u007f-\u009f\u2028\u2029]/);
        expect(new TextDecoder().decode(new TextEncoder().encode(label))).toBe(label);
      }),
    );
  });

  it('leaves ordinary names alone', () => {
    for (const name of ['org/Model-7B:latest', 'm"\\x', 'Größe', '🦙'.repeat(3)]) expect(labelText(name)).toBe(name);
    expect(labelText('a\nb')).toBe('a\ufffdb');
    expect(labelText('x'.repeat(100_000))).toHaveLength(maxLabelLength);
    expect(labelText(`${'x'.repeat(126)}🦙🦙`)).toBe(`${'x'.repeat(126)}\ufffd…`);
  });
});
