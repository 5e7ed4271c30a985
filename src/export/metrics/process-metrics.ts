/** What the process says of itself, read when somebody collects. */
import { performance } from 'node:perf_hooks';
import type { Meter } from './meter.ts';

const micros = 1_000_000;

export function registerProcessMetrics(meter: Pick<Meter, 'gauge' | 'counterFrom'>): void {
  meter.gauge('process.memory.usage', () => [{ labels: {}, value: process.memoryUsage.rss() }]);
  meter.gauge('process.uptime', () => [{ labels: {}, value: process.uptime() }]);
  meter.counterFrom('process.cpu.time', () => {
    const { user, system } = process.cpuUsage();
    return [
      { labels: { cpu: 'user' }, value: user / micros },
      { labels: { cpu: 'system' }, value: system / micros },
    ];
  });
  meter.counterFrom('nodejs.eventloop.time', () => {
    const { active, idle } = performance.eventLoopUtilization();
    return [
      { labels: { state: 'active' }, value: active / 1000 },
      { labels: { state: 'idle' }, value: idle / 1000 },
    ];
  });
}
