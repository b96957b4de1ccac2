import { createHash } from 'node:crypto'
import {
  appendFileSync,
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  writeFileSync,
} from 'node:fs'
import { resolve } from 'node:path'
import { type Json, type Properties, withValueAt } from './values.ts'

/** One object in the fake cloud. `outputs` is the result of a read, without secret markers. */
export interface CloudObject {
  readonly id: string
  readonly type: string
  /** The inputs of the last write, which distinguish them from values that the service computed. */
  readonly inputs: Properties
  readonly outputs: Properties
}

export type Operation = 'create' | 'read' | 'update' | 'delete' | 'invoke'

export interface Entry {
  readonly provider: string
  readonly op: Operation
  readonly type: string
  /** The object's id, or the URN if a create did not return an id. */
  readonly id: string
  /** `failed` if the caller received an error, even if the object was written. */
  readonly outcome: 'ok' | 'failed'
}

/**
 * A planted fault. `before`: fails without creating the object. `after`: creates the object and returns an error.
 * `partial`: like `after`, as a failed initialization that the engine knows of. `crash-before` and `crash-after`: end
 * the provider's process. `hang`: responds only when the engine cancels.
 */
export interface Fault {
  readonly op: Operation
  readonly type: string
  readonly how: 'before' | 'after' | 'partial' | 'crash-before' | 'crash-after' | 'hang' | 'slow'
  /** Which operation of that kind, counted from 1 after the planting. @default 1 */
  readonly nth?: number
  /** Duration of a `slow` operation. @default 200 */
  readonly delayMs?: number
}
interface Planted extends Fault {
  readonly seen: number
}

/** Azure ids are case-insensitive, and names in Kubernetes are lower case. */
const keyOf = (id: string) => createHash('sha256').update(id.toLowerCase()).digest('hex').slice(0, 40)

function readJson<T>(path: string): T | undefined {
  try {
    return JSON.parse(readFileSync(path, 'utf8')) as T
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return undefined
    throw error
  }
}

/** Whole or not at all: a provider that is killed while it writes leaves the old text. */
function writeJson(path: string, value: unknown): void {
  const draft = `${path}.${process.pid}.draft`
  writeFileSync(draft, JSON.stringify(value))
  renameSync(draft, path)
}

/**
 * A fake cloud in a folder, shared by the providers, the tests and later runs on another machine. It records every
 * operation, so that a test checks the actual operations and not the output of a tool.
 */
export function openCloud(folder: string) {
  const at = (...parts: string[]) => resolve(folder, ...parts)
  for (const room of ['objects', 'faults', 'tombstones']) mkdirSync(at(room), { recursive: true })
  const objectAt = (id: string) => at('objects', `${keyOf(id)}.json`)
  const every = (room: string) => readdirSync(at(room)).filter((file) => file.endsWith('.json'))

  const get = (id: string) => readJson<CloudObject>(objectAt(id))
  const put = (object: CloudObject) => writeJson(objectAt(object.id), object)
  const list = (): CloudObject[] =>
    every('objects').flatMap((file) => readJson<CloudObject>(at('objects', file)) ?? [])

  /** The fault that is due for this operation; each strikes once. */
  function strike(op: Operation, type: string): Fault | undefined {
    for (const file of every('faults').sort()) {
      const fault = readJson<Planted>(at('faults', file))
      if (fault === undefined || fault.op !== op || fault.type !== type) continue
      const seen = fault.seen + 1
      if (seen >= (fault.nth ?? 1)) {
        rmSync(at('faults', file), { force: true })
        return fault
      }
      writeJson(at('faults', file), { ...fault, seen })
    }
    return undefined
  }

  let planted = 0
  return {
    folder,
    get,
    put,
    list,
    remove: (id: string) => rmSync(objectAt(id), { force: true }),
    /** Reserves the name of a deleted object, as a deleted vault does. */
    bury: (id: string) => writeJson(at('tombstones', `${keyOf(id)}.json`), { id }),
    isBuried: (id: string) => readJson(at('tombstones', `${keyOf(id)}.json`)) !== undefined,
    record: (entry: Entry) => appendFileSync(at('log.jsonl'), `${JSON.stringify(entry)}\n`),
    log(): Entry[] {
      const text = readLog(at('log.jsonl'))
      return text.split('\n').flatMap((line) => (line === '' ? [] : [JSON.parse(line) as Entry]))
    },
    plant(fault: Fault): void {
      planted += 1
      const name = `${String(Date.now()).padStart(15, '0')}-${process.pid}-${planted}.json`
      writeJson(at('faults', name), { ...fault, seen: 0 })
    },
    strike,
    /** How many planted faults have not struck yet. */
    faultsLeft: () => every('faults').length,
    /** Whether the engine runs outside of the networks, where private addresses are unreachable. */
    isOutside: () => existsSync(at('outside')),
    stand(where: 'inside' | 'outside'): void {
      if (where === 'outside') writeFileSync(at('outside'), '')
      else rmSync(at('outside'), { force: true })
    },
    /** Simulates drift: changes the object without Pulumi. */
    alter(id: string, path: string, value: Json | undefined): void {
      const object = get(id)
      if (object === undefined) throw new Error(`the cloud has no ${id}`)
      put({ ...object, outputs: withValueAt(object.outputs, path, value) })
    },
  }
}
export type Cloud = ReturnType<typeof openCloud>

function readLog(path: string): string {
  try {
    return readFileSync(path, 'utf8')
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return ''
    throw error
  }
}
