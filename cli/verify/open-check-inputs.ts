import { existsSync } from 'node:fs'
import { join } from 'node:path'
import type { Environment } from '../../charts-src/environment/schema.ts'
import { CONTAINERS, names, type SandboxKind } from '../../contracts/names.ts'
import { parseStackFile } from '../../infra/config-schema.ts'
import { messageOf } from '../../runtime/kit/errors.ts'
import { CliError } from '../cli-error.ts'
import { readStackFile } from '../infra/read-stack-file.ts'
import { type CallProgram, createCallProgram } from '../program-call/call-program.ts'
import type { Connection } from '../service/connect.ts'
import type { CliIo } from '../terminal/terminal.ts'
import type { CheckInputs } from './check.ts'
import { type Listed, listedDestinations } from './listed.ts'
import { NotRun } from './outcome.ts'
import type { Target } from './sandbox.ts'
import { type InPod, makeSandbox, type Sandbox } from './sandbox.ts'

const KUBECTL_MS = 30_000

export interface CheckInputOptions {
  readonly io: CliIo
  readonly environment: Environment
  /** A destination that sandboxes may reach. @default the destinations of the egress policy */
  readonly allowed?: Target | undefined
  readonly unlisted: Target
  readonly claims: number
  readonly warmMs: number
  /** Connects to the service. Called once, when a check first needs it. */
  connect(): Promise<Connection>
}

/** Creates what the checks use. Disposing it destroys the shared sandboxes. */
export async function openCheckInputs(options: CheckInputOptions): Promise<CheckInputs & AsyncDisposable> {
  const { io, environment, unlisted, claims, warmMs } = options
  const call = createCallProgram(io)
  let connection: Connection | undefined
  const inPod = inPodOf(call, names(environment.slice).namespaces.sandboxes)
  const shared = new Map<SandboxKind, Promise<Sandbox>>()
  const make = async (kind: SandboxKind) => {
    connection ??= await connected(options)
    return makeSandbox(connection.client, { kind, inPod })
  }
  const share = (kind: SandboxKind) => {
    const sandbox = shared.get(kind) ?? make(kind)
    shared.set(kind, sandbox)
    return sandbox
  }
  return {
    environment,
    pools: await poolsOf(io.cwd, environment.name),
    call,
    async kubectl(...args) {
      const { status, stdout, stderr } = await call({
        program: 'kubectl',
        args: [...args, '--output', 'json'],
        timeoutMs: KUBECTL_MS,
      }).catch((error: unknown) => {
        throw new NotRun(messageOf(error))
      })
      if (status !== 0) throw new NotRun(`kubectl: ${stderr.trim().split('\n').at(-1) ?? ''}`)
      return JSON.parse(stdout) as unknown
    },
    sandbox: share,
    anotherSandbox: () => make('command'),
    listed: listedOf(options),
    unlisted,
    claims,
    warmMs,
    async [Symbol.asyncDispose]() {
      for (const making of shared.values()) await (await making.catch(() => undefined))?.destroy()
      await connection?.[Symbol.asyncDispose]()
    },
  }
}

/** A destination from the command line is also probed from the class that the policy allows to connect. */
function listedOf({ environment, allowed }: CheckInputOptions): Listed | undefined {
  const listed = listedDestinations(environment)
  return allowed === undefined ? listed : { kind: listed?.kind ?? 'command', targets: [allowed] }
}

const POD_NAME = /^[a-z0-9][a-z0-9.-]{0,252}$/

/** Runs `kubectl exec`. In sandbox namespaces, only the break-glass group may use it. */
const inPodOf =
  (call: CallProgram, namespace: string): InPod =>
  async (bound, argv) => {
    if (!bound || !POD_NAME.test(bound.podName))
      throw new NotRun('the sandbox is not a pod, and its commands have no network')
    const { status, stdout, stderr } = await call({
      program: 'kubectl',
      args: ['exec', '-n', namespace, bound.podName, '-c', CONTAINERS.toolbox, '--', ...argv],
      timeoutMs: KUBECTL_MS,
    })
    if (status === 0) return stdout
    const why = stderr.trim().split('\n').at(-1) ?? ''
    throw new NotRun(
      `commands have no network (network_enabled: false), and kubectl exec into the pod was refused (${why}); join the break-glass group to run this check`,
    )
  }

/** Without a service, or without an accepted key, checks are not run. The cluster has not failed. */
async function connected({ connect }: CheckInputOptions): Promise<Connection> {
  try {
    return await connect()
  } catch (error) {
    throw error instanceof CliError ? new NotRun(error.message) : error
  }
}

/** Pools of the stack file by their names in Azure. */
async function poolsOf(folder: string, environment: string): Promise<CheckInputs['pools']> {
  if (!existsSync(join(folder, `Pulumi.${environment}.yaml`))) return undefined
  const parsed = parseStackFile(await readStackFile(folder, environment))
  if ('problems' in parsed) return undefined
  const { config } = parsed
  if (config.kind !== 'platform' || config.layer !== 'all') return undefined
  const { system, app, kata } = config.pools
  return new Map([
    ['system', system],
    [`app${app.generation}`, app],
    [`kata${kata.generation}`, kata],
  ])
}
