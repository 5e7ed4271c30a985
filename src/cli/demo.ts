/** The demo's simulated model servers and traffic, loaded only when there is a demo. */
import { systemClock } from '../platform/clock.ts';

export interface Demo {
  readonly backends: readonly { readonly name: string; readonly url: string }[];
  /** A little seeded traffic against the proxy; no effect while there is some. */
  startTraffic(url: string): void;
  stopTraffic(): void;
  close(): Promise<void>;
}

export async function startDemo(): Promise<Demo> {
  const { startDemoFleet, startDemoTraffic } = await import('../sim/demo-fleet.ts');
  const fleet = await startDemoFleet({ clock: systemClock });
  let traffic: { stop(): void } | undefined;
  return {
    backends: fleet.backends,
    startTraffic(url) {
      traffic ??= startDemoTraffic({ url, clock: systemClock });
    },
    stopTraffic() {
      traffic?.stop();
      traffic = undefined;
    },
    close: () => fleet.close(),
  };
}
