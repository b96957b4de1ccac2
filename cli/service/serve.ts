import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { constants } from 'node:os'
import type { EnvSource } from '../../runtime/kit/parse-env.ts'
import { onInterrupt } from '../terminal/interrupts.ts'
import { SERVER_COMMAND } from './spawn-service.ts'

interface Serving {
  readonly env: EnvSource
  readonly cwd: string
  readonly json: boolean
}

/** Runs the service in the foreground until it ends. Returns its exit status. */
export async function serve({ env, cwd, json }: Serving): Promise<number> {
  const [node, ...argv] = SERVER_COMMAND
  const format = json ? { AGENTWEAVER_READY_FORMAT: 'json' } : {}
  // If this process is killed, nothing would stop the service.
  const parent = { AGENTWEAVER_PARENT_PID: String(process.pid) }
  const child = spawn(node, argv, { cwd, env: { ...env, ...format, ...parent }, stdio: 'inherit' })
  // The terminal sends Ctrl-C to both processes. Forwarding it would be a second signal, which stops the service at once.
  using _signals = onInterrupt((signal) => {
    if (signal !== 'SIGINT') child.kill(signal)
  })
  const [code, signal] = (await once(child, 'exit')) as [number | null, NodeJS.Signals | null]
  return code ?? 128 + (signal === null ? 0 : constants.signals[signal])
}
