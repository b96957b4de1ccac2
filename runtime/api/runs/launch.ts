import type { RequestedAgent } from '../../../contracts/api.ts'
import { ConfigureRequest, type ConfigureRequestInput } from '../../../contracts/configure.ts'
import type { SandboxKind } from '../../../contracts/names.ts'
import { type AgentHostClient, createAgentHostClient } from '../../agent-host-client/client.ts'
import { withTimeout } from '../../kit/deadline.ts'
import { SandboxError } from '../../kit/errors.ts'
import type { BoundSandbox } from '../../sandboxes/provider.ts'
import type { ClaimRow, RunRow } from '../../store/store.ts'
import { turnToken } from '../keys/deployment-keys.ts'
import { signTicket } from '../keys/ticket.ts'
import { resolveAgent } from './agent-config.ts'
import type { RunDeps } from './deps.ts'
import { claimName } from './ids.ts'

/** A sandbox that is configured for its run, and the client that holds its bearer. */
export type LaunchedSandbox = {
  readonly sandbox: BoundSandbox
  readonly client: AgentHostClient
  readonly generation: number
  readonly claim: Pick<ClaimRow, 'namespace' | 'name' | 'generation'>
}

const CLAIM_TIMEOUT_MS = 120_000
const CONFIGURE_TIMEOUT_MS = 35_000
const WORKSPACE_TIMEOUT_MS = 600_000

/** Gets a run its sandbox: claim, bound, configured, workspace in. Whatever fails, the claim is released. */
export async function launch(deps: RunDeps, run: RunRow, signal: AbortSignal): Promise<LaunchedSandbox> {
  const { store, provider, clock, keys } = deps
  const generation = run.generation + 1
  const kind: SandboxKind = run.kind
  const name = claimName(kind, run.id, generation)
  const claim = { namespace: provider.name, name, generation }
  const createdAt = clock().toISOString()
  await store.transaction(async (tx) => {
    await tx.changeRun(run.id, { state: 'launching', generation })
    await tx.upsertClaim({ ...claim, runId: run.id, keyId: keys.keyId, state: 'requested', createdAt })
  })
  const claimSignal = withTimeout(CLAIM_TIMEOUT_MS, signal)
  const sandbox = await provider.claim({
    claimName: name,
    runId: run.id,
    generation,
    kind,
    signal: claimSignal,
  })
  let client: AgentHostClient | undefined
  try {
    const bearer = turnToken(keys.derive('turn'), {
      runId: run.id,
      generation,
      instanceId: sandbox.instanceId,
    })
    client = createAgentHostClient(sandbox.address, bearer)
    const configured = configure(deps, run, { sandbox, client, generation, bearer, signal })
    configured.catch(() => undefined)
    await recordBound(deps, run, { sandbox, claim })
    await configured
    await putWorkspace(deps, run, { client, signal })
    return { sandbox, client, generation, claim }
  } catch (error) {
    await client?.close()
    await sandbox.release('the launch failed')
    await store.transaction((tx) => tx.changeClaim(claim, { state: 'released' }))
    throw error
  }
}

type Bound = { readonly sandbox: BoundSandbox; readonly claim: LaunchedSandbox['claim'] }

/** The binding and what was announced of it, in one commit. */
async function recordBound({ store }: RunDeps, run: RunRow, { sandbox, claim }: Bound): Promise<void> {
  const { isolation, podName, instanceId, launch: launched, bindMs, claimName: name } = sandbox
  const { backend, isRealIsolation, reason } = isolation
  await store.transaction(async (tx) => {
    const ids = { uid: instanceId, sandboxUid: instanceId, podUid: instanceId, handle: sandbox.handle }
    await tx.changeClaim(claim, { state: 'bound', ...ids })
    await tx.changeRun(run.id, { sandbox: { name: podName, isolation } })
    await tx.appendEvents(run.id, [
      { event: { type: 'sandbox.selected', data: { backend, isRealIsolation, reason } } },
      ...warningsFor(run, sandbox).map((data) => ({ event: { type: 'sandbox.warning', data } as const })),
      {
        event: {
          type: 'sandbox.execution_pod.bound',
          data: { podName, podUid: instanceId, claimName: name, launch: launched, bindMs },
        },
      },
    ])
  })
}

/** A weakness is announced to the runs that it can touch: an open network matters where the network is on. */
const warningsFor = (run: RunRow, { warnings }: BoundSandbox) =>
  warnings.filter(({ category }) => category !== 'network-unrestricted' || run.settings.network_enabled)

type Configuring = {
  readonly sandbox: BoundSandbox
  readonly client: AgentHostClient
  readonly generation: number
  readonly bearer: string
  readonly signal: AbortSignal
}

async function configure({ keys, models, clock }: RunDeps, run: RunRow, at: Configuring): Promise<void> {
  const { sandbox, client, generation, bearer } = at
  const resolved = resolveAgent((run.agentSpec ?? undefined) as RequestedAgent | undefined, models)
  const request: ConfigureRequestInput = {
    runId: run.id,
    generation,
    userId: run.owner,
    turnBearerToken: bearer,
    credential: resolved.credential,
    agent: resolved.agent,
    governance: { version: run.policyVersion, settings: run.settings },
    workingDirectory: sandbox.workingDirectory(
      run.workspace.kind === 'path' ? run.workspace.path : undefined,
    ),
  }
  const body = Buffer.from(JSON.stringify(ConfigureRequest.parse(request)))
  const { instanceId } = sandbox
  const ticket = await signTicket(keys.ticketKey, { instanceId, runId: run.id, body, now: clock() })
  const signal = withTimeout(CONFIGURE_TIMEOUT_MS, at.signal)
  await client.configure({ runId: run.id, generation, ticket, body, signal })
}

async function putWorkspace(
  { store }: RunDeps,
  run: RunRow,
  to: { client: AgentHostClient; signal: AbortSignal },
) {
  if (run.workspace.kind === 'path') return
  const blob = await store.readBlob(run.id, 'workspace')
  if (blob) return to.client.putWorkspace(blob.chunks, withTimeout(WORKSPACE_TIMEOUT_MS, to.signal))
  if (run.workspace.kind === 'upload')
    throw new SandboxError('workspace_invalid', 'the uploaded workspace is not in the store')
}
