/** Numbers as text, for what is written once per request. Pure but for what it remembers, which is bounded. */

/** `0` … `999`, and `.001` … `.999` without trailing zeros; each made when it is first asked for. */
const wholes: string[] = [];
const thousandths: string[] = [];

/** As `String` has it; most are milliseconds to a thousandth, put together from known pieces at a fraction of the cost. */
export function numberText(value: number): string {
  if (!(value >= 0 && value < 1000)) return String(value);
  const whole = Math.trunc(value);
  const text = (wholes[whole] ??= String(whole));
  if (value === whole) return text;
  const all = Math.round(value * 1000);
  if (all / 1000 !== value) return String(value);
  const rest = all - whole * 1000;
  return text + (thousandths[rest] ??= String(rest / 1000).slice(1));
}
