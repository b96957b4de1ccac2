import { spawn } from 'node:child_process'
import { once } from 'node:events'
import type { GitToolbox } from '../../runtime/agent-host/repository/git-command.ts'
import { failedExec } from '../../runtime/kit/failed-exec.ts'

/** Runs the commands of a sandbox on this machine, without isolation. */
export const toolboxIn = (cwd: string, environment: Readonly<Record<string, string>> = {}): GitToolbox => ({
  async exec(request, { onChunk, stdin, signal }) {
    const env = { PATH: process.env['PATH'], HOME: cwd, ...environment, ...request.environment }
    const child = spawn('bash', ['-c', request.command], { cwd, env, detached: true })
    const kill = () => {
      if (child.pid !== undefined && child.exitCode === null) process.kill(-child.pid, 'SIGKILL')
    }
    let timedOut = false
    const timer = setTimeout(() => {
      timedOut = true
      kill()
    }, request.timeoutMs)
    signal?.addEventListener('abort', kill)
    const reads = (['stdout', 'stderr'] as const).map(async (stream) => {
      for await (const bytes of child[stream]) await onChunk(stream, bytes)
    })
    child.stdin.on('error', () => undefined)
    child.stdin.end(stdin)
    const [[exitCode]] = await Promise.all([once(child, 'close'), ...reads]).catch((error) => {
      kill()
      throw error
    })
    clearTimeout(timer)
    return { ...failedExec('exit', ''), exitCode, timedOut }
  },
})
