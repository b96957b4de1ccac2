/** Time in which something would have happened that must not: the one case in which a test waits without a condition. */
export function quietPeriod(ms: number): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, ms))
}
