import { describe, expect, it } from 'vitest';

import { batchFlags, parseBatchArguments, verbs } from '../../../../src/cli/batch/batch-args.ts';
import { batchHelp } from '../../../../src/cli/batch/batch-help.ts';

const parse = (line: string, env: Readonly<Record<string, string>> = {}) =>
  parseBatchArguments(
    line.split(' ').filter((word) => word !== ''),
    env,
  );
const address = { url: 'http://127.0.0.1:8484' };

describe('the arguments of warmlane batch', () => {
  it('say what is submitted and what becomes of it', () => {
    expect(parse('submit in.jsonl')).toEqual({
      kind: 'submit',
      address,
      json: false,
      file: 'in.jsonl',
      window: '24h',
      metadata: {},
      wait: false,
      places: {},
    });
    expect(
      parse(
        'submit --wait in.jsonl --endpoint /v1/embeddings --window 1h --metadata a=1 --metadata b=x=y -o o --errors e --json',
      ),
    ).toMatchObject({
      endpoint: '/v1/embeddings',
      window: '1h',
      metadata: { a: '1', b: 'x=y' },
      wait: true,
      places: { output: 'o', errors: 'e' },
      json: true,
    });
  });

  it('name one batch, or a page of them', () => {
    expect(parse('list')).toEqual({ kind: 'list', address, json: false, limit: 20 });
    expect(parse('list --limit 3 --after batch_9')).toMatchObject({ limit: 3, after: 'batch_9' });
    expect(parse('status batch_1 --wait')).toEqual({ kind: 'status', address, json: false, id: 'batch_1', wait: true });
    expect(parse('cancel batch_1 --json')).toMatchObject({ kind: 'cancel', id: 'batch_1', json: true });
    expect(parse('results batch_1 -o -')).toMatchObject({ kind: 'results', places: { output: '-' } });
  });

  it('take address and key from the environment, the flag first', () => {
    const env = { WARMLANE_URL: 'https://w.example/v1/', WARMLANE_API_KEY: 'k1' };
    expect(parse('list', env)).toMatchObject({ address: { url: 'https://w.example', key: 'k1' } });
    expect(parse('list --url w:80 --key k2', env)).toMatchObject({ address: { url: 'http://w:80', key: 'k2' } });
    expect(parse('list', { WARMLANE_URL: '', WARMLANE_API_KEY: '' })).toMatchObject({ address });
  });

  it('give help to whoever asks for it, with every verb and flag in it', () => {
    for (const line of ['', '--help', 'submit -h', 'help', '--nonsense -h'])
      expect(parse(line)).toEqual({ kind: 'help' });
    for (const word of [...Object.keys(verbs), ...Object.keys(batchFlags).map((name) => `--${name}`)])
      expect(batchHelp()).toContain(word);
    const widths = batchHelp()
      .split('\n')
      .map(({ length }) => length);
    expect(Math.max(...widths)).toBeLessThanOrEqual(120);
  });

  it.each([
    ['submit', 'submit which FILE?'],
    ['status', 'status of which batch? Write its ID'],
    ['status a b', 'one batch at a time; unexpected: "b"'],
    ['list x', 'list takes no name; unexpected: "x"'],
    ['statsu x', 'unknown: batch "statsu"; did you mean status?'],
    ['in.jsonl', 'unknown: batch "in.jsonl"; a file is submitted: warmlane batch submit in.jsonl'],
    ['--json', 'what is to be done? Write warmlane batch submit|list|status|cancel|results'],
    ['submit f --endpont /v1/x', 'unknown flag --endpont; did you mean --endpoint?'],
    ['submit f --endpoint chat', '--endpoint "chat" is no path; write /v1/chat/completions'],
    ['submit f --window soon', '--window "soon" is no time; write 24h'],
    ['submit f --metadata a', '--metadata "a" is no KEY=VALUE'],
    ['submit f --metadata a=1 --metadata a=2', '--metadata "a" twice'],
    ['submit f -o x', '--output goes with --wait; later it is warmlane batch results ID'],
    ['submit f --wait -o x --errors x', '--output and --errors name the same file'],
    ['submit f --wait -o -', '-o - goes with results; submit says on stdout how far it is'],
    ['results b --json', 'results are JSON lines as they are; status ID --json prints the batch'],
    ['cancel b --wait', '--wait goes with submit, status, results, not cancel'],
    ['list --limit 0', '--limit "0" is no whole number from 1 to 100'],
    ['list --url ftp://x', '--url must be http://HOST:PORT or https://HOST, without a name, password or query'],
    ['list --key', '--key needs a value'],
  ])('%j is wrong: %s', (line, problem) => {
    const result = parse(line);
    expect(result.kind === 'wrong' ? result.problems : []).toContain(problem);
  });

  it('never repeat a key or a password in what is wrong', () => {
    const wrong = [
      parse('list --key sécret', {}),
      parse('list --url http://me:sécret@host'),
      parse('list', { WARMLANE_API_KEY: 'sécret' }),
    ];
    expect(wrong.map(({ kind }) => kind)).toEqual(['wrong', 'wrong', 'wrong']);
    expect(JSON.stringify(wrong)).not.toContain('cret');
  });
});
