import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { existsSync } from 'node:fs'
import { mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { build } from 'esbuild'
import type { AgentHostEnvInput } from '../../contracts/agent-host-env.ts'
import { CODE_CACHE } from './program.ts'

const FOLDER = fileURLToPath(new URL('.', import.meta.url))
/** Of a start that takes a second. */
const LIMIT_MS = 60_000

/** The names of the programs' folders. */
const PROGRAMS = ['agent-host', 'runner'] as const

/**
 * Makes the launchers of the bundled programs in `folder`, and what these start with: AgentHost is started once, with the
 * runner as its child, until it has rehearsed a run. The cache is good for the Node that this process runs on.
 */
export async function makeCodeCaches(folder: string): Promise<void> {
  await writeLaunchers(folder, 'record')
  await startOnce(folder)
  for (const name of PROGRAMS) {
    if (!existsSync(join(folder, name, CODE_CACHE))) throw new Error(`no code cache was made for ${name}`)
  }
  await writeLaunchers(folder, 'launch')
}

async function writeLaunchers(folder: string, kind: 'record' | 'launch'): Promise<void> {
  const write = (name: string) =>
    build({
      entryPoints: { server: join(FOLDER, `${kind}.ts`) },
      outdir: join(folder, name),
      outExtension: { '.js': '.cjs' },
      bundle: true,
      platform: 'node',
      format: 'cjs',
      target: 'node24',
      logLevel: 'warning',
    })
  await Promise.all(PROGRAMS.map(write))
}

async function startOnce(folder: string): Promise<void> {
  // Not below `folder`: the path of a socket has 107 bytes at most.
  const scratch = await mkdtemp(join(tmpdir(), 'agentweaver-start-'))
  const env = {
    AGENT_HOST_INSTANCE_ID: 'code-cache',
    AGENT_HOST_SOCKET: join(scratch, 'host.sock'),
    AGENT_HOST_JWKS_FILE: join(scratch, 'jwks.json'),
    AGENT_HOST_RUNNER_BACKEND: 'direct',
    AGENT_HOST_STATE_DIR: join(scratch, 'state'),
    AGENT_HOST_LOG_LEVEL: 'debug',
  } satisfies AgentHostEnvInput
  await writeFile(env.AGENT_HOST_JWKS_FILE, '{"keys":[]}')
  await mkdir(env.AGENT_HOST_STATE_DIR)
  try {
    await endWhenSettled(join(folder, 'agent-host', 'server.cjs'), env)
  } finally {
    await rm(scratch, { recursive: true, force: true })
  }
}

async function endWhenSettled(entry: string, env: Readonly<Record<string, string>>): Promise<void> {
  const child = spawn(process.execPath, [entry], {
    env,
    stdio: ['ignore', 'ignore', 'pipe'],
    timeout: LIMIT_MS,
  })
  let said = ''
  const isSettled = () => said.includes('"message":"settled"')
  child.stderr.setEncoding('utf8').on('data', (text: string) => {
    said += text
    if (isSettled()) child.kill()
  })
  const [code, signal] = await once(child, 'close')
  if (code !== 0 || !isSettled())
    throw new Error(`AgentHost ended with ${signal ?? code} while its code was compiled:\n${said}`)
}
