import { readdir, readFile } from 'node:fs/promises'

/** Processes whose parent is this one. */
export async function childPids(): Promise<number[]> {
  const tasks = await readdir('/proc/self/task')
  const lists = await Promise.all(tasks.map((task) => readFile(`/proc/self/task/${task}/children`, 'utf8')))
  return lists.flatMap((list) =>
    list
      .split(' ')
      .filter((pid) => pid.trim() !== '')
      .map(Number),
  )
}

/** Waits until a condition holds, with a deadline. */
export async function until(
  what: string,
  holds: () => boolean | Promise<boolean>,
  ms = 10_000,
): Promise<void> {
  const end = Date.now() + ms
  while (!(await holds())) {
    if (Date.now() > end) throw new Error(`waited ${ms} ms in vain: ${what}`)
    await new Promise((resolve) => setTimeout(resolve, 10))
  }
}
