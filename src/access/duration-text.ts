/** Durations as OpenAI writes them in `x-ratelimit-reset-*`: `12ms`, `8.64s`, `6m0s`. Pure. */

/** Rounded up: whoever waits so long doesn't come too early. */
export function durationText(ms: number): string {
  const whole = Math.ceil(ms);
  if (whole <= 0) return '0s';
  if (whole < 1000) return `${whole}ms`;
  if (whole < 60_000) return `${whole / 1000}s`;
  const seconds = Math.ceil(ms / 1000);
  const hours = Math.floor(seconds / 3600);
  const minutes = Math.floor((seconds % 3600) / 60);
  return `${hours === 0 ? '' : `${hours}h`}${minutes}m${seconds % 60}s`;
}
