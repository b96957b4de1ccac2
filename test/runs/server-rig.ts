import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { onTestFinished } from 'vitest'
import { createClient } from '../../runtime/client/client.ts'
import { API, COMPILE_CACHE } from '../helpers/built-programs.ts'

/** Runs the real service in a child process, in a folder of the test. `launcher` is an optional wrapper command. */
export async function startServer(
  folder: string,
  launcher: readonly string[] = [],
  env: Readonly<Record<string, string>> = {},
) {
  const [program = process.execPath, ...args] = [...launcher, process.execPath, API]
  const child = spawn(program, args, {
    stdio: ['ignore', 'pipe', 'inherit'],
    env: {
      PATH: process.env['PATH'],
      HOME: folder,
      TMPDIR: join(folder, 'tmp'),
      AGENTWEAVER_STATE_DIR: join(folder, 'state'),
      AGENTWEAVER_WORKSPACE_ROOTS: folder,
      AGENTWEAVER_PORT: '0',
      AGENTWEAVER_READY_FORMAT: 'json',
      AGENTWEAVER_LOG_LEVEL: 'error',
      ...COMPILE_CACHE,
      ...env,
    },
  })
  onTestFinished(() => kill(child))
  const [line] = (await once(createInterface({ input: child.stdout }), 'line')) as [string]
  const { url, apiKeyFile } = JSON.parse(line)
  const client = createClient({ url, apiKey: readFileSync(apiKeyFile, 'utf8').trim() })
  return { child, client }
}

export async function kill(child: ChildProcess): Promise<void> {
  if (child.exitCode !== null || child.signalCode !== null) return
  const gone = once(child, 'exit')
  child.kill('SIGKILL')
  await gone
}
