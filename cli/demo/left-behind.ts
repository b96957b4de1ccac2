import { existsSync } from 'node:fs'
import { readdir, readFile, readlink } from 'node:fs/promises'
import { delay } from '../../runtime/kit/deadline.ts'
import { errnoOf } from '../../runtime/kit/errors.ts'

const WAIT_MS = 5000
const POLL_MS = 50

/** A process's file, or nothing where it is gone or not ours to read. */
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

/** Processes of this machine, but this one, that work in the folder or were started with its path. */
export async function processesOf(folder: string): Promise<number[]> {
  const pids = (await readdir('/proc')).filter((name) => /^\d+$/.test(name) && Number(name) !== process.pid)
  const found = await Promise.all(pids.map((pid) => mentions(pid, folder)))
  return pids.filter((_pid, index) => found[index]).map(Number)
}

/** What is still there some time after the end: process ids, or the folder. Empty: nothing. */
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
