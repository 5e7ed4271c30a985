/** CPU that processes and the whole machine used, from /proc; seconds. Linux only. */
import { readFileSync } from 'node:fs';

const ticksPerSecond = 100;

/** User and system time of these processes, all threads. @param {number[]} pids */
export function cpuSeconds(pids) {
  let ticks = 0;
  for (const pid of pids) {
    const stat = readFileSync(`/proc/${pid}/stat`, 'utf8');
    const fields = stat.slice(stat.lastIndexOf(')') + 2).split(' ');
    ticks += Number(fields[11]) + Number(fields[12]);
  }
  return ticks / ticksPerSecond;
}

/** Busy time of all cores together: neither idle nor waiting for disks. */
export function machineSeconds() {
  const line = readFileSync('/proc/stat', 'utf8').split('\n')[0] ?? '';
  const [user = 0, nice = 0, system = 0, , , irq = 0, softirq = 0, steal = 0] = line.split(/\s+/).slice(1).map(Number);
  return (user + nice + system + irq + softirq + steal) / ticksPerSecond;
}
