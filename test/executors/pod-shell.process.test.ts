import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdtempSync, realpathSync, rmSync, statSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, describe, expect, it } from 'vitest'
import type { z } from 'zod'
import { ExecRequest } from '../../contracts/exec.ts'
import { commandShell } from '../../runtime/executors/command-shell.ts'
import type { Executor } from '../../runtime/executors/executor.ts'
import { createPodBackend, type PodBackendOptions } from '../../runtime/executors/pod.ts'
import { childrenOf } from '../../runtime/executors/process/process-tree.ts'
import { silentLog } from '../../runtime/kit/log.ts'
import { podIsolation } from '../../runtime/runner/pod/isolation.ts'
import { until } from '../helpers/until.ts'

/** Starts a program like a pod's runner, without the settings that only a pod can apply. */
const start: PodBackendOptions['start'] = ({ file, args, env, folder }) => {
  const child = spawn(file, args, {
    cwd: realpathSync(`/proc/self/fd/${folder}`),
    env: { ...env },
    stdio: ['ignore', 'pipe', 'pipe'],
    detached: true,
  })
  const exited = once(child, 'exit').then(([code, signal]) => ({ code, signal }))
  return { pid: child.pid ?? -1, stdin: undefined, stdout: child.stdout, stderr: child.stderr, exited }
}

describe.skipIf(process.platform !== 'linux')('the command shell in a sandbox pod', () => {
  const workspace = realpathSync(mkdtempSync(join(tmpdir(), 'pod-shell-')))
  afterAll(() => rmSync(workspace, { recursive: true, force: true }))

  const isolation = podIsolation('a test')
  const backend = createPodBackend({
    start,
    isolation,
    home: workspace,
    // Children that this process started itself are not orphans.
    ownChildren: () => childrenOf(process.pid),
    reap: () => undefined,
  })

  const createExecutor = () => backend.create({ workspace, toolRoots: [], log: silentLog })

  async function runIn(executor: Executor, request: z.input<typeof ExecRequest>) {
    const output: string[] = []
    const result = await executor.run(ExecRequest.parse(request), {
      onChunk: (_stream, bytes) => {
        output.push(Buffer.from(bytes).toString())
      },
    })
    return { ...result, output: output.join('') }
  }

  async function run(command: string, environment: Record<string, string> = {}) {
    const executor = await createExecutor()
    const result = await runIn(executor, { command, environment })
    await executor.close()
    return result
  }

  it('is the one that the pod reports', async () => {
    expect(isolation.shell).toBe(commandShell().name)

    const { output } = await run('echo "$0 ${BASH_VERSION:+is bash}"')

    expect(output.trim()).toBe(isolation.shell === 'bash' ? 'bash is bash' : 'sh')
  })

  it.skipIf(isolation.shell !== 'bash')('parses commands as bash, without start-up files', async () => {
    writeFileSync(join(workspace, 'start-up'), 'echo from a file')
    const environment = { BASH_ENV: 'start-up', ENV: 'start-up' }

    const { output } = await run(`[[ x == x ]] && echo $'\\'; echo no; #'`, environment)

    expect(output).toBe("'; echo no; #\n")
  })
  it('keeps the line numbers of a command that cannot write to a full workspace', async () => {
    const executor = await createExecutor()
    const limits = { maxWorkspaceBytes: 1_048_576 }
    let round = 0
    await until('the workspace is full', async () => {
      const command = `head -c 4M /dev/zero > much-${round++}`
      const { message } = await runIn(executor, { ...limits, command })
      return message?.includes('could not write to files') ?? false
    })

    const { output, exitCode } = await runIn(executor, { ...limits, command: 'echo text > one\nexit 7' })
    await executor.close()

    expect(output).toMatch(/\b1: /)
    expect(exitCode).toBe(7)
    expect(statSync(join(workspace, 'one')).size).toBe(0)
  })
})
