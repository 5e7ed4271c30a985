/** Tells the fleet what one request shows of its backend: faults, meaningful answers, errors inside streams, silence. */
import type { UpstreamFault } from '../platform/upstream/port.ts';
import type { Fleet } from './fleet.ts';
import { signalOfAnswer, signalOfStreamError, type AnswerSeen } from './traffic-signals.ts';

export interface TrafficWitness {
  faulted(fault: UpstreamFault): void;
  /** @returns the backend takes no work now */
  answered(answer: AnswerSeen): boolean;
  /** @returns the backend takes no work now */
  streamError(message: string): boolean;
  /** A stream has been silent for a second. @returns ends the watch */
  quiet(): () => void;
}

export function createWitness(fleet: Pick<Fleet, 'report' | 'watchQuiet'>, backend: string): TrafficWitness {
  return {
    faulted(fault) {
      const { kind } = fault;
      if (kind === 'refused' || kind === 'connect_timeout' || kind === 'dns' || kind === 'tls') {
        fleet.report(backend, { kind: 'connectFailed', fault: kind });
      } else if (!fault.responseStarted) fleet.report(backend, { kind: 'resetBeforeHead' });
    },
    answered(answer) {
      const signal = signalOfAnswer(answer);
      if (signal !== undefined) fleet.report(backend, signal);
      return signal !== undefined && signal.kind !== 'answered';
    },
    streamError(message) {
      const signal = signalOfStreamError(message);
      if (signal !== undefined) fleet.report(backend, signal);
      return signal !== undefined;
    },
    quiet: () => fleet.watchQuiet(backend),
  };
}
