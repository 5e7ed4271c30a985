import { describe, expect, it } from 'vitest';

import { parseArguments } from '../../../src/cli/args.ts';

const parse = (line: string) => parseArguments(line.split(' ').filter((word) => word !== ''));

describe('parseArguments', () => {
  it('serves when no command is given', () => {
    expect(parse('')).toEqual({ kind: 'serve', flags: {} });
    expect(parse('serve')).toEqual({ kind: 'serve', flags: {} });
  });

  it('reads every flag, before or behind the command', () => {
    const flags = {
      backends: ['http://a', 'http://b', 'http://c'],
      listen: ':1',
      adminListen: '2',
      logLevel: 'debug',
      logFormat: 'json',
      demo: true,
    };
    const line =
      '--backend http://a,http://b --backend=http://c --listen :1 --admin-listen 2 --log-level debug --log-format json --demo';
    expect(parse(`check -c w.yaml ${line}`)).toEqual({ kind: 'check', file: 'w.yaml', flags });
    expect(parse(`--config=w.yaml ${line} check`)).toEqual({ kind: 'check', file: 'w.yaml', flags });
  });

  it('gives help to whoever asks for it, whatever else is wrong', () => {
    for (const line of ['--help', '-h', 'help', '--nonsense --help', 'nonsense --help'])
      expect(parse(line)).toEqual({ kind: 'help' });
    for (const line of ['check -h', '--help check', 'help check', 'check --nonsense --help'])
      expect(parse(line)).toEqual({ kind: 'help', of: 'check' });
  });

  it('tells the version', () => {
    expect(parse('--version')).toEqual({ kind: 'version' });
  });

  it.each([
    ['--listn :1', ['unknown flag --listn; did you mean --listen?']],
    ['--log_level debug', ['unknown flag --log_level; did you mean --log-level?']],
    ['--temperature=1', ['unknown flag --temperature; warmlane --help names them all']],
    ['--port 9000', ['unknown flag --port; write --listen HOST:PORT']],
    ['--host=0.0.0.0', ['unknown flag --host; write --listen HOST:PORT']],
    ['-c a.yaml --config b.yaml', ['--config twice; there is one file']],
    ['-x', ['unknown flag -x; warmlane --help names them all']],
    ['--__proto__ x', ['unknown flag --__proto__; warmlane --help names them all']],
    ['chek', ['unknown command "chek"; did you mean "check"?']],
    ['toString', ['unknown command "toString"; commands are serve, check, report, replay, batch, doctor']],
    ['http://h', ['a URL stands alone; write --backend before it']],
    ['serve now', ['unexpected: "now"']],
    ['--demo=1', ['--demo takes no value']],
    ['--config', ['--config needs a value; --config FILE']],
    ['--listen --demo', ['--listen needs a value; --listen ADDRESS']],
    ['--listen=', ['--listen needs a value; --listen ADDRESS']],
    ['--listn :1 --config', ['unknown flag --listn; did you mean --listen?', '--config needs a value; --config FILE']],
  ])('%s is wrong, with exit code 2', (line, problems) => {
    expect(parse(line)).toEqual({ kind: 'wrong', exitCode: 2, problems });
  });
});
