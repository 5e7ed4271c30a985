/** Figures with as many digits as mean something. What is absent stays absent. Pure. */

/** To a thousandth: milliseconds to the microsecond. */
export function thousandth(value: number | undefined): number | undefined {
  return value === undefined ? undefined : Math.round(value * 1000) / 1000;
}

export function tenth(value: number | undefined): number | undefined {
  return value === undefined ? undefined : Math.round(value * 10) / 10;
}
