import { describe, expect, it } from 'vitest';
import { mayName } from '../../../src/http/host-guard.ts';

const loopback = { host: 'Box.lan', address: '127.0.1.1' };

describe('on a loopback address', () => {
  it.each([
    'localhost',
    'localhost:9091',
    'LOCALHOST:1',
    '127.0.0.1:9091',
    '127.8.9.10',
    '[::1]:9091',
    '[::1]',
    'box.LAN:9091',
    undefined,
  ])('Host %s is answered', (host) => {
    expect(mayName(host, loopback)).toBe(true);
  });

  it.each([
    'evil.example:9091',
    '127.0.0.1.evil.example',
    'localhost.evil.example',
    '127.evil',
    '10.0.0.1',
    '[::2]',
    'a:b:c',
    '',
  ])('Host %j is not', (host) => {
    expect(mayName(host, loopback)).toBe(false);
    expect(mayName(host, { host: 'localhost', address: '::1' })).toBe(false);
  });
});

it.each(['0.0.0.0', '::', '10.0.0.5'])('on %s any Host is answered', (address) => {
  expect(mayName('gateway.example', { host: address, address })).toBe(true);
});
