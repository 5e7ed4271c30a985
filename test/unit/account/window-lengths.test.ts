import { expect, it } from 'vitest';
import { readWindow } from '../../../src/account/window-lengths.ts';

it('a window is named by its minutes, with their unit or without', () => {
  expect(['1', '5m', '60', '60m', '1h'].map(readWindow)).toEqual(['1m', '5m', '60m', '60m', '60m']);
  expect(['', '0', '2', '5s', '-1', 'x', '601', 'm'].map(readWindow)).toEqual(
    Array.from({ length: 8 }, () => undefined),
  );
});
