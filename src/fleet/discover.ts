/**
 * Finds model servers at the usual places of this machine, for a start with nothing configured.
 * Takes only what shows itself as a model server: port 8000 or 8080 may be anybody's.
 */
import type { Clock } from '../platform/clock.ts';
import { boundedAsk, detect } from './detect.ts';
import type { ProbeFetchFactory } from './probe-port.ts';

/** Default ports of vLLM, llama-server, SGLang and Ollama. */
const usualPorts: readonly number[] = [8000, 8080, 30000, 11434];

export interface DiscoverDeps {
  readonly clock: Clock;
  readonly probeFetch: ProbeFetchFactory;
}

/** URLs of the model servers that answer, in the order of `ports`. All are asked at once, each for `timeoutMs` at most. */
export async function findLocalServers(
  deps: DiscoverDeps,
  ports: readonly number[] = usualPorts,
  timeoutMs = 300,
): Promise<readonly string[]> {
  const urls = ports.map((port) => `http://127.0.0.1:${port}`);
  const found = await Promise.all(
    urls.map(
      async (url) => (await detect(boundedAsk(deps.probeFetch({ url }), deps.clock, { timeoutMs }), {})).recognised,
    ),
  );
  return urls.filter((_, index) => found[index]);
}
