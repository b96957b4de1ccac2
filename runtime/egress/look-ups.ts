import { lookup } from 'node:dns/promises'
import { readFile } from 'node:fs/promises'
import { errnoOf } from '../kit/errors.ts'

/** Returns the addresses of a name. */
export type Resolve = (name: string) => Promise<string[]>

const HOSTS = '/etc/hosts'

const addressesOf: Resolve = async (name) =>
  (await lookup(name, { all: true, order: 'verbatim' })).map(({ address }) => address)

/**
 * Resolves a name with a dot at the end: without it, the system also tries the name below the search domains of the
 * machine, which belong to others. Names of `/etc/hosts` have no dot.
 */
export const resolveBySystem: Resolve = async (name) => {
  try {
    return await addressesOf(`${name}.`)
  } catch (error) {
    if (errnoOf(error) !== 'ENOTFOUND' || !(await isInHosts(name))) throw error
    return addressesOf(name)
  }
}

async function isInHosts(name: string): Promise<boolean> {
  const text = await readFile(HOSTS, 'utf8').catch(() => '')
  return text.split('\n').some((line) => line.replace(/#.*/, '').trim().split(/\s+/).slice(1).includes(name))
}

/**
 * Limits the look-ups of one sandbox that are under way. A look-up blocks a thread of the process and cannot be cancelled,
 * so it counts until it has really ended.
 */
export function limitLookUps(resolve: Resolve, max: number): Resolve {
  let running = 0
  const waiting: (() => void)[] = []
  const end = () => {
    running -= 1
    waiting.shift()?.()
  }
  return async (name) => {
    if (running >= max) await new Promise<void>((next) => waiting.push(next))
    running += 1
    return resolve(name).finally(end)
  }
}
