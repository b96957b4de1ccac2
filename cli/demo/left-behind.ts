import { existsSync } from 'node:fs'
import { readdir, readFile, readlink } from 'node:fs/promises'
import { delay } from '../../runtime/kit/deadline.ts'
import { errnoOf } from '../../runtime/kit/errors.ts'

const WAIT_MS = 5000
const POLL_MS = 50

/** Reads a file of `/proc`, or '' if the process is gone or belongs to another user. */
async function orEmpty(read: Promise<string>): Promise<string> {
  try {
    return await read
  } catch (error) {
    if (['ENOENT', 'ESRCH', 'EACCES', 'EPERM'].includes(errnoOf(error) ?? '')) return ''
    throw error
  }
}

async function mentions(pid: string, folder: string): Promise<boolean> {
  const texts = await Promise.all([
    orEmpty(readFile(`/proc/${pid}/cmdline`, 'utf8')),
    orEmpty(readFile(`/proc/${pid}/environ`, 'utf8')),
    orEmpty(readlink(`/proc/${pid}/cwd`)),
  ])
  return texts.some((text) => text.includes(folder))
}

/** Processes, except this one, that work in the folder or have its path in their arguments or environment. */
export async function processesOf(folder: string): Promise<number[]> {
  const pids = (await readdir('/proc')).filter((name) => /^\d+$/.test(name) && Number(name) !== process.pid)
  const found = await Promise.all(pids.map((pid) => mentions(pid, folder)))
  return pids.filter((_pid, index) => found[index]).map(Number)
}

/** Waits for the end of all processes and of the folder; returns those that remain after the time limit. */
export async function leftBehind(folder: string, waitMs = WAIT_MS): Promise<string[]> {
  const until = Date.now() + waitMs
  while (true) {
    const processes = await processesOf(folder)
    const left = [
      ...processes.map((pid) => `process ${pid}`),
      ...(existsSync(folder) ? [`the folder ${folder}`] : []),
    ]
    if (left.length === 0 || Date.now() > until) return left
    await delay(POLL_MS)
  }
}
