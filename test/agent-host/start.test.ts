import { spawn } from 'node:child_process'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, expect, it } from 'vitest'
import type { AgentHostEnvInput } from '../../contracts/agent-host-env.ts'
import { bundlePrograms } from '../helpers/programs.ts'

const programs = bundlePrograms()
afterAll(programs.remove)

/** Says which of Node's modules are loaded whenever AgentHost says how far it is. */
const WITNESS = `
const { write } = process.stderr
process.stderr.write = function (line, ...rest) {
  const loaded = process.moduleLoadList.filter((one) => one.startsWith('NativeModule ')).map((one) => one.slice(13))
  const { message } = JSON.parse(line)
  if (/^(?:waiting for the runner|settled)$/.test(message)) process.stdout.write(JSON.stringify({ message, loaded }) + '\\n')
  return write.call(this, line, ...rest)
}`

type Loaded = Record<'waiting for the runner' | 'settled', readonly string[]>

async function modulesLoaded(): Promise<Loaded> {
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
  const child = spawn(process.execPath, ['--require', witness, await programs.agentHost()], {
    env,
    stdio: ['ignore', 'pipe', 'inherit'],
  })
  try {
    const loaded: Record<string, readonly string[]> = {}
    let rest = ''
    for await (const text of child.stdout.setEncoding('utf8')) {
      const lines = (rest + text).split('\n')
      rest = lines.pop() ?? ''
      for (const line of lines.filter((one) => one.startsWith('{'))) {
        const said = JSON.parse(line)
        loaded[said.message] = said.loaded
      }
      if (loaded['settled']) break
    }
    return loaded as Loaded
  } finally {
    child.kill()
    rmSync(folder, { recursive: true })
  }
}

it('loads nothing for its start that only a run needs, and all of it before there is one', async () => {
  const loaded = await modulesLoaded()

  const late = (modules: readonly string[]) =>
    modules.filter((one) => ['crypto', 'http2', 'https', 'tls', 'v8'].includes(one))
  expect(loaded['waiting for the runner']).toContain('http')
  expect(late(loaded['waiting for the runner'])).toEqual([])
  expect(late(loaded.settled)).toEqual(expect.arrayContaining(['crypto', 'v8']))
})
