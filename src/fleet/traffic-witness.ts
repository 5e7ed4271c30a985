/** Tells the fleet what one request shows of its backend: faults, meaningful answers, errors inside streams, silence. */
import type { UpstreamFault } from '../platform/upstream/port.ts';
import type { Member } from './fleet.ts';
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

/** @param member undefined: it has left the fleet, nobody is told */
export function createWitness(member: Pick<Member, 'report' | 'watchQuiet'> | undefined): TrafficWitness {
  return {
    faulted(fault) {
      const { kind } = fault;
      if (isOfConnecting(kind)) {
        member?.report({ kind: 'connectFailed', fault: kind });
      } else if (!fault.responseStarted) member?.report({ kind: 'resetBeforeHead' });
    },
    answered(answer) {
      const signal = signalOfAnswer(answer);
      if (signal !== undefined) member?.report(signal);
      return signal !== undefined && signal.kind !== 'answered';
    },
    streamError(message) {
      const signal = signalOfStreamError(message);
      if (signal !== undefined) member?.report(signal);
      return signal !== undefined;
    },
    quiet: () => member?.watchQuiet() ?? (() => {}),
  };
}

/** Of a request that no user sent: that nobody listens there counts; that it broke off may be its own fault, time and again. */
export function ofOwnRequest(witness: TrafficWitness): TrafficWitness {
  return {
    ...witness,
    faulted(fault) {
      if (isOfConnecting(fault.kind)) witness.faulted(fault);
    },
  };
}

function isOfConnecting(kind: UpstreamFault['kind']): kind is 'refused' | 'connect_timeout' | 'dns' | 'tls' {
  return kind === 'refused' || kind === 'connect_timeout' || kind === 'dns' || kind === 'tls';
}
