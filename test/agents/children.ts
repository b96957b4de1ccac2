import { readdir, readFile } from 'node:fs/promises'

/** Child processes of this process, or of the given one. */
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

/** Whether a process runs. A zombie does not count. */
export async function isRunning(pid: number): Promise<boolean> {
  const status = await readFile(`/proc/${pid}/status`, 'utf8').catch(() => 'State:\tX')
  return !/^State:\s+[XZ]/m.test(status)
}
