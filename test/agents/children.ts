import { readdir, readFile } from 'node:fs/promises'

/** Processes whose parent is this one, or the named one. */
export async function childPids(parent: number | 'self' = 'self'): Promise<number[]> {
  const tasks = await readdir(`/proc/${parent}/task`)
  const lists = await Promise.all(
    tasks.map((task) => readFile(`/proc/${parent}/task/${task}/children`, 'utf8')),
  )
  return lists.flatMap((list) =>
    list
      .split(' ')
      .filter((pid) => pid.trim() !== '')
      .map(Number),
  )
}

/** Whether a process runs; one that has ended and was not waited for yet does not. */
export async function isRunning(pid: number): Promise<boolean> {
  const status = await readFile(`/proc/${pid}/status`, 'utf8').catch(() => 'State:\tX')
  return !/^State:\s+[XZ]/m.test(status)
}
