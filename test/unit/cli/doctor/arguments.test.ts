import { describe, expect, it } from 'vitest';
import { parseDoctorArguments } from '../../../../src/cli/doctor/arguments.ts';

const parse = (line: string, env: Record<string, string> = {}) =>
  parseDoctorArguments(line.split(' ').filter(Boolean), env);

describe('the arguments of doctor', () => {
  it('are a URL and little else', () => {
    expect(parse('http://h:8000')).toEqual({
      kind: 'run',
      options: {
        url: 'http://h:8000',
        json: false,
        timeoutMs: 120_000,
        cache: false,
        fill: false,
        yes: false,
        rounds: 6,
      },
    });
  });

  it('take the URL as people paste it', () => {
    for (const url of ['h:8000', 'http://h:8000/', 'http://h:8000/v1', 'http://h:8000/v1/'])
      expect(parse(url)).toMatchObject({ options: { url: 'http://h:8000' } });
    expect(parse('https://h/llm/v1')).toMatchObject({ options: { url: 'https://h/llm' } });
  });

  it('read all flags', () => {
    expect(
      parse('http://h --cache --fill --yes --json --model m --api-key k --timeout 9 --prompt-tokens 900 --rounds 3'),
    ).toMatchObject({
      options: {
        cache: true,
        fill: true,
        yes: true,
        json: true,
        model: 'm',
        apiKey: 'k',
        timeoutMs: 9000,
        promptTokens: 900,
        rounds: 3,
      },
    });
  });

  it('give an experiment more time than a look', () => {
    expect(parse('http://h --cache')).toMatchObject({ options: { timeoutMs: 300_000 } });
  });

  it('take the key from the environment, the flag before its variable', () => {
    expect(parse('http://h --api-key ${env:K}', { K: 'secret' })).toMatchObject({ options: { apiKey: 'secret' } });
    const own = { WARMLANE_DOCTOR_API_KEY: 'own' };
    expect(parse('http://h', own)).toMatchObject({ options: { apiKey: 'own' } });
    expect(parse('http://h --api-key given', own)).toMatchObject({ options: { apiKey: 'given' } });
    expect(parse('http://h --api-key ${env:K}')).toEqual({ kind: 'wrong', problems: ['the environment has no K'] });
  });

  it.each([
    ['', 'which endpoint? Write warmlane doctor http://HOST:PORT'],
    ['http://h http://i', 'one endpoint at a time; too much: "http://i"'],
    ['http://h --cach', 'unknown flag --cach; did you mean --cache?'],
    ['http://h --timeout', '--timeout needs a value'],
    ['http://h --timeout 0', '--timeout must be a whole number from 1 to 86400'],
    ['http://h --rounds 1', '--rounds must be a whole number from 2 to 100'],
    ['http://h --fill', '--fill goes with --cache'],
    ['ftp://h', 'not an http or https URL: "ftp://h"'],
  ])('%s is wrong', (line, problem) => {
    expect(parse(line)).toEqual({ kind: 'wrong', problems: [problem] });
  });

  it('give help whatever else is wrong', () => {
    expect(parse('--nonsense -h')).toEqual({ kind: 'help' });
  });
});
