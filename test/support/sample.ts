/** Plain values for tests: a job, a backend, with what a test doesn't care about filled in. */
import type { BackendView } from '../../src/domain/fleet.ts';
import type { Job } from '../../src/domain/job.ts';

export function sampleJob(over: Partial<Job> = {}): Job {
  return {
    requestId: 'r1',
    endpoint: 'chat',
    method: 'POST',
    target: '/v1/chat/completions',
    format: 'chat',
    generates: true,
    model: 'm',
    stream: true,
    choices: 1,
    bodyBytes: 100,
    readable: true,
    lane: 'online',
    usage: { byClient: false },
    measured: true,
    ...over,
  };
}

export function sampleBackend(name: string, over: Partial<BackendView> = {}): BackendView {
  return {
    name,
    url: `http://${name}`,
    engine: 'vllm',
    engineKnown: true,
    health: 'up',
    healthSinceMs: 1,
    models: [],
    ghostSlots: 0,
    advice: [],
    ...over,
  };
}
