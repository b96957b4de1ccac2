import { spawn } from 'node:child_process'
import { once } from 'node:events'
import engineServices from '@pulumi/pulumi/proto/engine_grpc_pb.js'
import monitorServices from '@pulumi/pulumi/proto/resource_grpc_pb.js'
import { RUNNER } from '../../../../infra/engine/wire.ts'
import { listen } from '../wire.ts'
import { createDeployment, type DeploymentOptions, type Step } from './deployment.ts'
import { engineHandlers, type MonitorOptions, monitorHandlers } from './monitor.ts'

/** A whole run on a loaded machine; seconds on an idle one. */
const TIMEOUT_MS = 240_000

export interface RunOptions extends DeploymentOptions, MonitorOptions {
  /** Folder whose `index.ts` is the program. */
  readonly program: string
  readonly config: Readonly<Record<string, string>>
  readonly secretKeys?: readonly string[]
  readonly environment?: Readonly<Record<string, string>>
}
export interface RunResult {
  readonly status: number | null
  readonly steps: readonly Step[]
  readonly changes: readonly string[]
  /** What failed in the engine, and what the program logged as an error. */
  readonly errors: readonly string[]
  readonly output: string
}

async function runRunner(options: RunOptions, address: string) {
  const { project, stack, preview = false } = options
  const names = ['--project', project, '--stack', stack, '--organization', 'organization']
  const settings = ['--dry-run', String(preview), '--parallel', '16', '--pwd', options.program]
  const child = spawn(
    process.execPath,
    [RUNNER, '--monitor', address, '--engine', address, ...names, ...settings, '.'],
    {
      env: {
        PATH: '',
        ...options.environment,
        PULUMI_NODEJS_TYPESCRIPT: 'false',
        PULUMI_CONFIG: JSON.stringify(options.config),
        PULUMI_CONFIG_SECRET_KEYS: JSON.stringify(options.secretKeys ?? []),
      },
      stdio: ['ignore', 'pipe', 'pipe'],
      signal: AbortSignal.timeout(TIMEOUT_MS),
    },
  )
  const chunks: Buffer[] = []
  child.stdout.on('data', (chunk: Buffer) => chunks.push(chunk))
  child.stderr.on('data', (chunk: Buffer) => chunks.push(chunk))
  const [status] = (await once(child, 'close')) as [number | null]
  return { status, output: Buffer.concat(chunks).toString('utf8') }
}

/**
 * `up` or `preview` of a program by the SDK's own runner: the program in a process of its own, the engine here, the
 * providers wherever their addresses lead.
 */
export async function runUnderEngine(options: RunOptions): Promise<RunResult> {
  await using deployment = createDeployment(options)
  const logged: string[] = []
  await using listener = await listen([
    [monitorServices.ResourceMonitorService, monitorHandlers(deployment, options)],
    [engineServices.EngineService, engineHandlers(logged)],
  ])
  const { status, output } = await runRunner(options, listener.address)
  if (status === 0 && deployment.errors.length === 0) await deployment.removeLeftovers()
  return {
    status,
    steps: deployment.steps,
    changes: deployment.changes(),
    errors: [...deployment.errors, ...logged],
    output,
  }
}
