/** Runs `warmlane doctor` in this process and gives back what it said. */
import { runDoctor } from '../../src/cli/doctor/run-doctor.ts';
import type { CacheReading } from '../../src/cli/doctor/cache/interpret.ts';
import type { Finding } from '../../src/cli/doctor/finding.ts';

export interface DoctorReport {
  readonly exitCode: number;
  readonly findings: readonly Finding[];
  /** With `--cache`. */
  readonly reading: CacheReading | undefined;
  /** `verdict says` of one check; undefined: nothing was said of it. */
  of(check: string): string | undefined;
  /** What went to stderr: the budget, problems. */
  readonly said: string;
}

export async function doctor(url: string, flags: readonly string[] = []): Promise<DoctorReport> {
  let out = '';
  let said = '';
  const exitCode = await runDoctor({
    argv: ['doctor', url, '--json', ...flags],
    env: {},
    out: (text) => void (out += text),
    err: (text) => void (said += text),
  });
  const { findings = [], reading } = (out === '' ? {} : JSON.parse(out)) as Partial<DoctorReport>; // as run-doctor.ts writes it
  return {
    exitCode,
    findings,
    reading,
    said,
    of(check) {
      const found = findings.find((one) => one.check === check);
      return found === undefined ? undefined : `${found.verdict} ${found.says}`;
    },
  };
}
