import { rm } from 'node:fs/promises'
import { Socket } from 'node:net'
import { POD_RUNNER_KEYS, PodRunnerEnv, RUNNER_ENV_PREFIX, RunnerEnv } from '../../contracts/runner-env.ts'
import { selectBackend } from '../executors/select.ts'
import { bestEffort } from '../kit/best-effort.ts'
import { messageOf } from '../kit/errors.ts'
import { createLog } from '../kit/log.ts'
import { parseEnv } from '../kit/parse-env.ts'
import { serveRunner } from './serve.ts'

const log = createLog({ level: 'info', write: (line) => process.stderr.write(line) })

/** In a pod the environment names the runner's role. On a laptop the runner is a child of AgentHost. */
async function main(): Promise<void> {
  if (process.env['AGENTWEAVER_RUNNER_ROLE'] === undefined) return serveInherited()
  const env = parseEnv(PodRunnerEnv, process.env, { prefix: RUNNER_ENV_PREFIX, also: POD_RUNNER_KEYS })
  const { runInPod } = await import('./pod/main.ts')
  return runInPod(env, log)
}

/** Serves the AgentHost at the other end of the inherited socket until it disconnects. */
async function serveInherited(): Promise<void> {
  const env = parseEnv(RunnerEnv, process.env, { prefix: RUNNER_ENV_PREFIX })
  const stream = new Socket({ fd: env.AGENTWEAVER_RUNNER_FD, readable: true, writable: true })
  const temporary = env.AGENTWEAVER_RUNNER_TEMP
  if (temporary) process.env['TMPDIR'] = temporary
  const only = env.AGENTWEAVER_RUNNER_BACKEND
  const toolRoots = env.AGENTWEAVER_RUNNER_TOOL_ROOTS
  const hostRoots = env.AGENTWEAVER_RUNNER_HOST_ROOTS
  process.once('SIGTERM', () => stream.destroy())
  // Ctrl-C signals the whole process group, but only the connection decides when a runner ends.
  process.on('SIGINT', () => log.debug('ignored SIGINT; AgentHost ends the runner'))
  try {
    const { backend, detection } = await selectBackend({ only, allowDirect: only === 'direct', toolRoots })
    await serveRunner({
      stream,
      role: 'per-command',
      backend,
      isolation: detection.isolation,
      toolRoots,
      hostRoots,
      egressFolder: env.AGENTWEAVER_RUNNER_EGRESS_FOLDER,
      clearsSetId: true,
      log,
    })
  } finally {
    if (temporary) {
      await bestEffort(log, 'remove the temporary files', () =>
        rm(temporary, { recursive: true, force: true }),
      )
    }
  }
}

main().then(
  () => process.exit(),
  (error: unknown) => {
    process.stderr.write(`${messageOf(error)}\n`)
    process.exit(1)
  },
)
