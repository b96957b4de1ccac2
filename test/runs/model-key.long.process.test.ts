import { randomBytes } from 'node:crypto'
import { closeSync, openSync, readdirSync, readFileSync, readSync, rmSync } from 'node:fs'
import { join } from 'node:path'
import { expect, it, onTestFinished } from 'vitest'
import { startModelServer } from '../fakes/model-server.ts'
import { alice, aRun, dataOf, follow, startService } from './service-rig.ts'

/** Each test has a canary of its own, which nothing that a sandbox can read may contain. */
const aKey = () => `sk-canary${randomBytes(18).toString('hex')}`

const formsOf = (value: string) => [
  value,
  Buffer.from(value).toString('base64').replace(/=+$/, ''),
  Buffer.from(value).toString('hex'),
]

const holds = (bytes: Buffer, value: string) => formsOf(value).some((form) => bytes.includes(form))

async function aPlace(respond: Parameters<typeof startModelServer>[0]['respond']) {
  const key = aKey()
  const model = await startModelServer({ respond })
  const started = await startService({ OPENAI_BASE_URL: model.url, OPENAI_API_KEY: key })
  onTestFinished(async () => {
    await started.close()
    await model.close()
  })
  const start = () =>
    started.service.startRun(alice, {
      ...aRun(started.aWorkspace(), []),
      agent: { kind: 'openaiCompatible', model: 'any-model' },
    })
  return { ...started, key, model, start }
}

interface Process {
  readonly pid: number
  readonly command: string
}

/** The processes below this one, by their command lines. */
function descendants(pid = process.pid): Process[] {
  const tasks = readdirSync(`/proc/${pid}/task`)
  const children = tasks.flatMap((task) => {
    try {
      return readFileSync(`/proc/${pid}/task/${task}/children`, 'utf8').trim().split(' ').filter(Boolean)
    } catch {
      return []
    }
  })
  return children.flatMap((child) => {
    try {
      const command = readFileSync(`/proc/${child}/cmdline`, 'utf8').replaceAll('\0', ' ')
      return [{ pid: Number(child), command }, ...descendants(Number(child))]
    } catch {
      return []
    }
  })
}

/** Where in a process the value is: its environment, its arguments, its memory. */
function findIn({ pid }: Process, value: string): string[] {
  const found = ['environ', 'cmdline'].filter((file) => holds(readFileSync(`/proc/${pid}/${file}`), value))
  return memoryHolds(pid, value) ? [...found, 'memory'] : found
}

function memoryHolds(pid: number, value: string): boolean {
  const memory = openSync(`/proc/${pid}/mem`, 'r')
  try {
    return readFileSync(`/proc/${pid}/maps`, 'utf8')
      .split('\n')
      .filter((line) => / rw/.test(line))
      .some((line) => {
        const [start = 0, end = 0] = (line.split(' ', 1)[0] ?? '')
          .split('-')
          .map((at) => Number.parseInt(at, 16))
        return holds(readRange(memory, start, end), value)
      })
  } finally {
    closeSync(memory)
  }
}

/** A range may be gone, or not be readable. */
function readRange(file: number, start: number, end: number): Buffer {
  const bytes = Buffer.alloc(end - start)
  try {
    return bytes.subarray(0, readSync(file, bytes, 0, bytes.length, start))
  } catch {
    return Buffer.alloc(0)
  }
}

function bytesOf(folder: string): Buffer {
  const files = readdirSync(folder, { recursive: true, withFileTypes: true }).filter((entry) =>
    entry.isFile(),
  )
  return Buffer.concat(files.map((entry) => readFileSync(join(entry.parentPath, entry.name))))
}

/** What a hostile agent searches. The output is in the events, where the redactor would hide a key. */
const HUNT =
  'env; cat /proc/*/environ /proc/*/cmdline 2>/dev/null; grep -ra sk-can /tmp /etc /home /run 2>/dev/null'

it('leaves the key of the model in the service and in the process that inserts it', async () => {
  let found: (Process & { where: string[] })[] = []
  const place = await aPlace((_request, index) => {
    if (index === 0) return { toolCalls: [{ name: 'run_command', arguments: { command: HUNT } }] }
    // The agent waits for this answer, so all of its processes work.
    if (index === 1) found = descendants().map((one) => ({ ...one, where: findIn(one, place.key) }))
    return index === 1
      ? { toolCalls: [{ name: 'report_outcome', arguments: { outcome: 'succeeded' } }] }
      : { text: 'Done.' }
  })
  const { key, model, start, service, store, config } = place

  const { id } = await start()
  const events = await follow(service, id)

  expect(dataOf(events, 'done')).toEqual([{ state: 'succeeded' }])
  expect(model.requests[0]?.headers['authorization']).toBe(`Bearer ${key}`)
  expect(dataOf(events, 'egress.credential_used')[0]).toMatchObject({ credentialId: 'model-key', count: 1 })
  const withKey = found.filter(({ where }) => where.length > 0)
  const BROKER = expect.stringMatching(/egress\/server\.ts credentials/)
  expect(withKey).toEqual([{ pid: expect.any(Number), command: BROKER, where: ['memory'] }])
  for (const part of [/copilot-runtime/, /runner/, /egress\/server\.ts $/])
    expect(found.map(({ command }) => command)).toContainEqual(expect.stringMatching(part))
  const output = JSON.stringify(events)
  expect(output).toContain('PATH=')
  expect(output).not.toContain('REDACTED')
  const stored = `${output} ${JSON.stringify(await store.readAudit({ runId: id, limit: 100 }))}`
  expect(holds(Buffer.from(stored), key)).toBe(false)
  expect(holds(bytesOf(config.stateDir), key)).toBe(false)
  expect(holds(bytesOf(place.workspaces), key)).toBe(false)
})

it('does not begin a run if the proxy does not run', async () => {
  const { start, service, config, model } = await aPlace(() => ({ text: 'Done.' }))
  const keys = readdirSync(join(config.stateDir, 'keys')).filter((name) => name.includes('jwks'))
  expect(keys).toHaveLength(1)
  rmSync(join(config.stateDir, 'keys', keys[0] ?? ''))

  await expect(start()).rejects.toMatchObject({
    code: 'unavailable',
    message: expect.stringMatching(
      /call its model through the egress proxy of this machine, which does not run/,
    ),
  })
  expect((await service.listRuns(alice, { kind: 'agent', limit: 10 })).items).toEqual([])
  expect(model.requests).toEqual([])
})

it('gives the agent and people the reason why a request to its model was refused', async () => {
  const { start, service } = await aPlace(() => ({
    status: 307,
    headers: { location: 'http://127.0.0.1:1/' },
  }))

  const { id } = await start()
  const events = await follow(service, id)

  expect(dataOf(events, 'run.failed')).toMatchObject([
    {
      code: 'agent_failed',
      message: expect.stringMatching(/redirects to another address, and redirects are not followed/),
    },
  ])
  expect(dataOf(events, 'egress.denied')).toMatchObject([
    { host: '127.0.0.1', rule: 'model', path: '/model/v1/chat/completions', method: 'POST' },
  ])
})
