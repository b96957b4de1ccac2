import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { onTestFinished as onThisTestFinished, type TestContext } from 'vitest'
import { API, COMPILE_CACHE } from '../helpers/built-programs.ts'

export type ServiceProcess = {
  readonly child: ChildProcess
  readonly stdout: () => string
  readonly stderr: () => string
  /** Exit status, or the signal that ended the process. */
  readonly exited: Promise<number | string>
  /** The line with the URL. */
  readonly ready: Promise<Ready>
}

type Ready = {
  readonly url: string
  readonly socket: string
  readonly apiKeyFile: string
  readonly pid: number
}

/** The hook of the test's own context. Concurrent tests need it. */
export type OnTestFinished = TestContext['onTestFinished']

/** A state folder, deleted after the test. */
export async function makeStateDir(onTestFinished: OnTestFinished = onThisTestFinished): Promise<string> {
  const directory = await mkdtemp(join(tmpdir(), 'aw-service-'))
  onTestFinished(() => rm(directory, { recursive: true, force: true }))
  return join(directory, 'state')
}

/** The real service as a process on a free port, killed after the test. */
export function startService(
  env: Record<string, string>,
  onTestFinished: OnTestFinished = onThisTestFinished,
  cwd?: string,
): ServiceProcess {
  const service = spawnService(env, cwd)
  onTestFinished(() => void service.child.kill('SIGKILL'))
  return service
}

/** The same for several tests. The caller stops it. */
export function spawnService(env: Record<string, string>, cwd?: string): ServiceProcess {
  const child = spawn(process.execPath, [API], {
    cwd,
    env: {
      PATH: process.env['PATH'],
      HOME: tmpdir(),
      AGENTWEAVER_PORT: '0',
      AGENTWEAVER_LOCAL_WARM: '0',
      AGENTWEAVER_READY_FORMAT: 'json',
      ...COMPILE_CACHE,
      ...env,
    },
    stdio: ['pipe', 'pipe', 'pipe'],
  })
  let stdout = ''
  let stderr = ''
  child.stderr.on('data', (chunk) => {
    stderr += chunk
  })
  const exited = once(child, 'close').then(([code, signal]) => code ?? signal)
  const ready = new Promise<Ready>((resolve, reject) => {
    child.stdout.on('data', (chunk) => {
      stdout += chunk
      if (stdout.includes('\n')) resolve(JSON.parse(stdout.slice(0, stdout.indexOf('\n'))))
    })
    exited.then((status) => reject(new Error(`exited with ${status} before it listened: ${stderr}`)))
  })
  ready.catch(() => undefined)
  return { child, stdout: () => stdout, stderr: () => stderr, exited, ready }
}
