/** Milliseconds that this thread was on a processor while `work` ran: what other programs take is not in it. */
export function processorMs(work: () => unknown): number {
  const before = process.threadCpuUsage()
  work()
  const { user, system } = process.threadCpuUsage(before)
  return (user + system) / 1000
}
