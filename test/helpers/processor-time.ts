/** CPU time of this thread in milliseconds while `work` ran, without the time of other programs. */
export function processorMs(work: () => unknown): number {
  const before = process.threadCpuUsage()
  work()
  return millisecondsSince(before)
}

/** The same for work that is not done at once. */
export async function processorMsUntil(work: () => Promise<unknown>): Promise<number> {
  const before = process.threadCpuUsage()
  await work()
  return millisecondsSince(before)
}

function millisecondsSince(before: NodeJS.CpuUsage): number {
  const { user, system } = process.threadCpuUsage(before)
  return (user + system) / 1000
}
