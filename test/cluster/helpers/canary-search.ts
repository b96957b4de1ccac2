import { execFile } from 'node:child_process'
import {
  existsSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  readlinkSync,
  rmSync,
  writeFileSync,
} from 'node:fs'
import { open } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import { promisify } from 'node:util'
import pg from 'pg'
import { errnoOf } from '../../../runtime/kit/errors.ts'

const execFileAsync = promisify(execFile)
const MAX_OUTPUT = 256 * 1024 * 1024
const GREP_MS = 120_000
const NOTHING_FOUND = 1

/** The three base64 forms of a value, one for each offset at which it can stand in the encoded data. */
const base64Of = (value: string): string[] =>
  [0, 1, 2].map((shift) => {
    const encoded = Buffer.from('x'.repeat(shift) + value).toString('base64')
    // The first and last characters depend on the neighbouring bytes.
    return encoded.slice(shift === 0 ? 0 : 4, encoded.length - 4)
  })

/** The forms in which a value could hide in bytes. */
export const formsOf = (value: string): string[] => [
  value,
  ...base64Of(value),
  ...base64Of(value).map((form) => form.replaceAll('+', '-').replaceAll('/', '_')),
  Buffer.from(value).toString('hex'),
  Buffer.from(value).toString('hex').toUpperCase(),
  encodeURIComponent(value),
  [...value].reverse().join(''),
]

/** Returns the names of the values that occur in the bytes in any form. */
export function valuesIn(bytes: Buffer | string, values: Readonly<Record<string, string>>): string[] {
  const searched = Buffer.from(bytes)
  return Object.entries(values)
    .filter(([, value]) => formsOf(value).some((form) => searched.includes(form)))
    .map(([name]) => name)
}

/**
 * Returns the files below the folders whose raw content or name contains the value. A folder that vanishes during the
 * search is ignored.
 */
export async function filesWith(folders: readonly string[], value: string): Promise<string[]> {
  const scratch = mkdtempSync(join(tmpdir(), 'aw-search-'))
  try {
    const patterns = join(scratch, 'patterns')
    writeFileSync(patterns, formsOf(value).join('\n'), { mode: 0o600 })
    const options = { maxBuffer: MAX_OUTPUT, timeout: GREP_MS }
    const inFiles = await execFileAsync(
      'grep',
      ['-rlaF', '--no-messages', '-f', patterns, '--', ...folders],
      options,
    )
      .then(({ stdout }) => stdout)
      .catch((error: { code?: unknown; stdout?: string }) => {
        // Exit code 2: a file could not be read. The matches so far are still valid.
        if (error.code === NOTHING_FOUND || error.code === 2) return error.stdout ?? ''
        throw error
      })
    const names = await execFileAsync('find', [...folders], options)
      .then(({ stdout }) => stdout)
      .catch((error: { stdout?: string }) => error.stdout ?? '')
    const named = names.split('\n').filter((path) => formsOf(value).some((form) => path.includes(form)))
    return [...inFiles.split('\n').filter(Boolean), ...named]
  } finally {
    rmSync(scratch, { recursive: true, force: true })
  }
}

/** Every row of every table, as text and with its bytes in hex. */
export function dumpSqlite(file: string): string {
  const database = new DatabaseSync(file, { readOnly: true })
  try {
    const tables = database.prepare("SELECT name FROM sqlite_master WHERE type = 'table'").all()
    return tables
      .flatMap(({ name }) => database.prepare(`SELECT * FROM "${String(name)}"`).all())
      .map((row) => Object.values(row).map(textOfCell).join('\n'))
      .join('\n')
  } finally {
    database.close()
  }
}

const textOfCell = (cell: unknown): string => {
  if (cell instanceof Uint8Array) return Buffer.from(cell).toString('latin1')
  return typeof cell === 'string' ? cell : JSON.stringify(cell)
}

export async function dumpPostgres(url: string): Promise<string> {
  const client = new pg.Client({ connectionString: url })
  await client.connect()
  try {
    const { rows: tables } = await client.query<{ name: string }>(
      "SELECT tablename AS name FROM pg_tables WHERE schemaname NOT IN ('pg_catalog', 'information_schema')",
    )
    const parts: string[] = []
    for (const { name } of tables) {
      const { rows } = await client.query<Record<string, unknown>>(`SELECT * FROM "${name}"`)
      parts.push(...rows.flatMap((row) => Object.values(row)).map(textOfCell))
    }
    return parts.join('\n')
  } finally {
    await client.end()
  }
}

export type PodProcess = { readonly pid: number; readonly uid: number; readonly container: string }

/** The processes of a pod's containers as the machine sees them, by the control group that the kubelet gave them. */
export function processesOf(podUid: string): PodProcess[] {
  const forms = [podUid, podUid.replaceAll('-', '_')]
  return readdirSync('/proc')
    .filter((name) => /^\d+$/.test(name))
    .flatMap((name) => {
      const groups = readIfThere(`/proc/${name}/cgroup`).toString()
      const container = forms.flatMap((form) => containerIn(groups, form))[0]
      if (container === undefined) return []
      const uid = Number(/^Uid:\s+(\d+)/m.exec(readIfThere(`/proc/${name}/status`).toString())?.[1])
      return [{ pid: Number(name), uid, container }]
    })
}

/** The name of the container's control group, below the one of its pod. */
const containerIn = (groups: string, podUid: string): string[] => {
  const at = groups.indexOf(`pod${podUid}`)
  return at < 0 ? [] : [/\/([^/\n]+)/.exec(groups.slice(at))?.[1] ?? '']
}

/** Data of a process that is readable from outside: environment, arguments, and the targets of its file descriptors. */
export function tracesOf({ pid }: PodProcess): Map<string, Buffer> {
  const traces = new Map<string, Buffer>()
  for (const part of ['environ', 'cmdline', 'comm', 'mountinfo'])
    traces.set(`/proc/${pid}/${part}`, readIfThere(`/proc/${pid}/${part}`))
  for (const fd of existsSync(`/proc/${pid}/fd`) ? readdirSync(`/proc/${pid}/fd`) : []) {
    const path = `/proc/${pid}/fd/${fd}`
    const target = linkOf(path)
    traces.set(`the target of ${path}`, Buffer.from(target))
    // Also of a file that has no name any more.
    if (target.startsWith('/') && !target.startsWith('/dev/')) traces.set(path, readIfThere(path))
  }
  return traces
}

/** All that a process has in its memory and could write. Empty if it has ended. */
export async function memoryOf({ pid }: Pick<PodProcess, 'pid'>): Promise<Buffer> {
  const parts: Buffer[] = []
  const memory = await open(`/proc/${pid}/mem`, 'r').catch((error: unknown) => {
    if (errnoOf(error) !== 'ENOENT') throw error
    return undefined
  })
  if (!memory) return Buffer.alloc(0)
  try {
    for (const line of readIfThere(`/proc/${pid}/maps`).toString().split('\n')) {
      const [, from = '', to = ''] = /^([0-9a-f]+)-([0-9a-f]+) rw/.exec(line) ?? []
      if (from === '') continue
      parts.push(await readRange(memory, Number.parseInt(from, 16), Number.parseInt(to, 16)))
    }
  } finally {
    await memory.close()
  }
  return Buffer.concat(parts)
}

const PAGE = 4096
const STEP = 4 * 1024 * 1024
const STEP_PAGES = STEP / PAGE
/** Bit 63 of an entry of pagemap: the page is in memory. */
const PRESENT = 0x80
const MAX_PAGES = 256 * 2 ** 18

/** A page that cannot be read ends its step, not the search. */
async function readRange(memory: Awaited<ReturnType<typeof open>>, from: number, to: number) {
  const parts: Buffer[] = []
  for (let at = from; at < to; ) {
    const length = Math.min(STEP, to - at)
    const { bytesRead, buffer } = await memory
      .read(Buffer.alloc(length), 0, length, at)
      .catch(() => ({ bytesRead: 0, buffer: Buffer.alloc(0) }))
    parts.push(buffer.subarray(0, bytesRead))
    at += bytesRead || PAGE
  }
  return Buffer.concat(parts)
}

/**
 * The names of the values that are in the memory of a process in any form. Reads only pages that are in memory: the kernel of gVisor
 * reserves far more than the machine has, and reading a page would create it.
 */
export async function valuesInMemory(
  { pid }: Pick<PodProcess, 'pid'>,
  values: Readonly<Record<string, string>>,
): Promise<string[]> {
  const found = new Set<string>()
  const longest = Math.max(
    ...Object.values(values)
      .flatMap(formsOf)
      .map(({ length }) => length),
  )
  let tail = Buffer.alloc(0)
  for await (const { bytes, isNext } of presentPages(pid)) {
    const searched = isNext ? Buffer.concat([tail, bytes]) : bytes
    for (const name of valuesIn(searched, values)) found.add(name)
    tail = Buffer.from(searched.subarray(-longest))
  }
  return [...found]
}

/** The pages of a process that are in memory and that it could write, in steps. `isNext`: follows the step before. */
async function* presentPages(pid: number): AsyncGenerator<{ bytes: Buffer; isNext: boolean }> {
  await using files = new AsyncDisposableStack()
  const [memory, map] = await Promise.all([open(`/proc/${pid}/mem`, 'r'), open(`/proc/${pid}/pagemap`, 'r')])
  files.defer(() => memory.close())
  files.defer(() => map.close())
  for (const [from, to] of writableRanges(pid)) {
    let end = -1
    for (let at = from; at < to; at += STEP_PAGES) {
      const length = Math.min(STEP_PAGES, to - at)
      const { buffer: entries } = await map.read(Buffer.alloc(length * 8), 0, length * 8, at * 8)
      for (const [start, count] of presentRuns(entries)) {
        const bytes = await readRange(memory, (at + start) * PAGE, (at + start + count) * PAGE)
        yield { bytes, isNext: end === at + start }
        end = at + start + count
      }
    }
  }
}

/** The writable address ranges of a process, as numbers of pages. */
function writableRanges(pid: number): [from: number, to: number][] {
  const lines = readIfThere(`/proc/${pid}/maps`)
    .toString()
    .matchAll(/^([0-9a-f]+)-([0-9a-f]+) rw/gm)
  const ranges = [...lines].map(([, from = '', to = '']): [number, number] => [
    Number.parseInt(from, 16) / PAGE,
    Number.parseInt(to, 16) / PAGE,
  ])
  if (ranges.reduce((sum, [from, to]) => sum + to - from, 0) > MAX_PAGES)
    throw new Error(`process ${pid} has too much memory to search`)
  return ranges
}

/** Stretches of pages that are in memory: number of the first page, and length. */
function presentRuns(entries: Buffer): [number, number][] {
  const runs: [number, number][] = []
  for (let page = 0; page * 8 < entries.length; page++) {
    if (((entries[page * 8 + 7] ?? 0) & PRESENT) === 0) continue
    const last = runs.at(-1)
    if (last && last[0] + last[1] === page) last[1] += 1
    else runs.push([page, 1])
  }
  return runs
}

/** Everything that a container sees as files, its volumes and scratch space with it. */
export const rootOf = ({ pid }: PodProcess): string[] =>
  readdirSync(`/proc/${pid}/root/`)
    .filter((name) => !['proc', 'sys', 'dev'].includes(name))
    .map((name) => `/proc/${pid}/root/${name}`)

function readIfThere(path: string): Buffer {
  try {
    return readFileSync(path)
  } catch {
    return Buffer.alloc(0)
  }
}

function linkOf(path: string): string {
  try {
    return readlinkSync(path)
  } catch {
    return ''
  }
}
