import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { readdirSync, readFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'

/** A bare Node HTTP server on a Unix socket. */
export const BARE_SERVER = fileURLToPath(new URL('bare-server.mjs', import.meta.url))

export type Subject = {
  readonly child: ChildProcess
  readonly pid: number
  /** From the spawn to the first line that it printed. */
  readonly startMs: number
  /** The standard error of the process so far. */
  readonly said: () => string
  /** Ends it and waits until it is gone. */
  readonly stop: () => Promise<void>
}

/** Starts a program with nothing but the given environment and waits until it says that it is there. */
export async function startSubject(
  args: readonly string[],
  env: Record<string, string> = {},
  program: string = process.execPath,
): Promise<Subject> {
  const startedAt = performance.now()
  const child = spawn(program, args, { stdio: ['pipe', 'pipe', 'pipe'], env, detached: true })
  let said = ''
  child.stderr.setEncoding('utf8').on('data', (chunk: string) => {
    said += chunk
  })
  const exited = once(child, 'exit')
  const died = exited.then(([code, signal]) => {
    throw new Error(`${args.join(' ')} ended with ${signal ?? code} before it was ready\n${said}`)
  })
  await Promise.race([once(child.stdout, 'data'), died])
  died.catch(() => undefined)
  const startMs = performance.now() - startedAt
  const pid = child.pid ?? 0
  const stop = async () => {
    // The whole process group: a tracer exits only after the process that it traces.
    process.kill(-pid, 'SIGTERM')
    await exited
  }
  return { child, pid, startMs, said: () => said, stop }
}

/** Resident memory in bytes. */
export function residentBytes(pid: number): number {
  const found = /^VmRSS:\s+(\d+) kB$/m.exec(readFileSync(`/proc/${pid}/status`, 'utf8'))
  return Number(found?.[1]) * 1024
}

/** Milliseconds that all threads of a process were on a processor so far. */
export function cpuMs(pid: number): number {
  const nanoseconds = readdirSync(`/proc/${pid}/task`).map((thread) =>
    Number(readFileSync(`/proc/${pid}/task/${thread}/schedstat`, 'utf8').split(' ')[0]),
  )
  return nanoseconds.reduce((sum, one) => sum + one, 0) / 1e6
}
