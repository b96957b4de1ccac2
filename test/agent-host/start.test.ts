import { spawn } from 'node:child_process'
import { cpSync, mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import type { AgentHostEnvInput } from '../../contracts/agent-host-env.ts'
import { bundlePrograms } from '../helpers/programs.ts'

const ROOT = join(import.meta.dirname, '../..')
const programs = bundlePrograms()
afterAll(programs.remove)

/** Says which of Node's modules are loaded whenever AgentHost says how far it is. */
const WITNESS = `
const { write } = process.stderr
process.stderr.write = function (line, ...rest) {
  const loaded = process.moduleLoadList.filter((one) => one.startsWith('NativeModule ')).map((one) => one.slice(13))
  const message = line.startsWith('{') ? JSON.parse(line).message : ''
  if (/^(?:waiting for the runner|settled)$/.test(message)) process.stdout.write(JSON.stringify({ message, loaded }) + '\\n')
  return write.call(this, line, ...rest)
}`

interface Start {
  /** Node's modules, by what AgentHost said when they were loaded. */
  readonly loaded: Record<'waiting for the runner' | 'settled', readonly string[]>
  /** All that it wrote to standard error until it was settled or gone. */
  readonly said: string
}

/** Starts AgentHost as its image does, until it is settled. */
async function start(entry: string): Promise<Start> {
  const folder = mkdtempSync(join(tmpdir(), 'aw-start-'))
  const witness = join(folder, 'witness.cjs')
  writeFileSync(witness, WITNESS)
  writeFileSync(join(folder, 'jwks.json'), '{"keys":[]}')
  const env = {
    AGENT_HOST_INSTANCE_ID: 'start-test',
    AGENT_HOST_SOCKET: join(folder, 'host.sock'),
    AGENT_HOST_JWKS_FILE: join(folder, 'jwks.json'),
    AGENT_HOST_RUNNER_BACKEND: 'direct',
    AGENT_HOST_STATE_DIR: folder,
    AGENT_HOST_LOG_LEVEL: 'debug',
  } satisfies AgentHostEnvInput
  const child = spawn(process.execPath, ['--max-semi-space-size=2', '--require', witness, entry], {
    env,
    stdio: ['ignore', 'pipe', 'pipe'],
  })
  let said = ''
  child.stderr.setEncoding('utf8').on('data', (text: string) => {
    said += text
  })
  try {
    const loaded: Record<string, readonly string[]> = {}
    let rest = ''
    for await (const text of child.stdout.setEncoding('utf8')) {
      const lines = (rest + text).split('\n')
      rest = lines.pop() ?? ''
      for (const line of lines.filter((one) => one.startsWith('{'))) {
        const one = JSON.parse(line)
        loaded[one.message] = one.loaded
      }
      if (loaded['settled']) break
    }
    return { loaded: loaded as Start['loaded'], said }
  } finally {
    child.kill()
    rmSync(folder, { recursive: true })
  }
}

it('loads nothing for its start that only a run needs, and all of it before there is one', async () => {
  const { loaded } = await start(await programs.agentHost())

  const late = (modules: readonly string[]) =>
    modules.filter((one) => ['crypto', 'http2', 'https', 'tls', 'v8'].includes(one))
  expect(loaded['waiting for the runner']).toContain('http')
  expect(late(loaded['waiting for the runner'])).toEqual([])
  expect(late(loaded.settled)).toEqual(expect.arrayContaining(['crypto', 'v8']))
})

describe('what V8 compiled when the programs were bundled', () => {
  const folder = mkdtempSync(join(tmpdir(), 'aw-compiled-'))
  const cache = join(folder, 'agent-host/program.v8')
  const entry = join(folder, 'agent-host/server.cjs')
  let made: Buffer
  beforeAll(async () => {
    cpSync(join(dirname(await programs.agentHost()), '..'), folder, { recursive: true })
    symlinkSync(join(ROOT, 'node_modules'), join(folder, 'node_modules'))
    made = readFileSync(cache)
  })
  afterAll(() => rmSync(folder, { recursive: true }))

  it('is what a start takes, its runner too', async () => {
    const { loaded, said } = await start(entry)

    expect(loaded.settled).toBeDefined()
    expect(said).not.toContain('Warning')
  })

  it('says nothing of where it was built', () => {
    const files = ['agent-host', 'runner'].flatMap((name) =>
      ['program.js', 'program.v8'].map((file) => readFileSync(join(folder, name, file), 'latin1')),
    )

    for (const text of files) {
      expect(text).toContain('AGENTWEAVER_RUNNER_')
      expect(text).not.toContain(ROOT)
    }
  })

  it.each([
    ['another V8', 4],
    ['another source', 8],
    ['other flags', 12],
  ])('is not taken where it is of %s, and AgentHost starts all the same', async (_of, offset) => {
    const other = Buffer.from(made)
    other.writeUInt8(other.readUInt8(offset) ^ 1, offset)
    writeFileSync(cache, other)
    const { loaded, said } = await start(entry)

    expect(loaded.settled).toBeDefined()
    expect(said).toMatch(
      /Warning: program\.v8 was made by another Node or under other V8 flags: it is not used/,
    )
  })

  it('is not taken where half of it is missing', async () => {
    writeFileSync(cache, made.subarray(0, made.length / 2))
    const { loaded, said } = await start(entry)

    expect(loaded.settled).toBeDefined()
    expect(said).toContain('it is not used')
  })

  it("is each program's own: the runner says so of its own", async () => {
    writeFileSync(cache, made)
    writeFileSync(join(folder, 'runner/program.v8'), made)
    const { loaded, said } = await start(entry)

    expect(loaded.settled).toBeDefined()
    expect(said).toMatch(/"message":"runner","line":"\(node:\d+\) Warning: program\.v8/)
  })
})
