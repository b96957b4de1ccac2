import { createHash } from 'node:crypto'
import { RequestedAgent } from '../../../../contracts/agents.ts'
import { ConfigureRequest, type ConfigureRequestInput } from '../../../../contracts/configure.ts'
import type { HostSettings, SandboxSettings } from '../../../../contracts/policy.ts'
import { createAgentHostClient } from '../../../agent-host-client/client.ts'
import { resolveAgent } from '../../../agents/registry.ts'
import { present } from '../../../kit/present.ts'
import type { BoundSandbox, ForeseenSandbox } from '../../../sandboxes/provider.ts'
import type { RunRow } from '../../../store/store.ts'
import { runDigestKey, turnToken } from '../../keys/deployment-keys.ts'
import { signTicket } from '../../keys/ticket.ts'
import { modelUrlOf } from '../admit/model-url.ts'
import type { RunDeps } from '../deps.ts'
import type { RunFolder } from '../results/run-folders.ts'

/** How long before its use a ticket is signed at most: half of its life is left for its way. */
const FRESH_MS = 30_000

type Keys = Pick<RunDeps, 'keys'>
type Generation = Pick<RunRow, 'id' | 'generation'>

/** A client with the bearer of a run's sandbox. */
export const clientFor = (
  deps: Keys,
  run: Generation,
  sandbox: Pick<BoundSandbox, 'address' | 'instanceId'>,
) => createAgentHostClient(sandbox.address, bearerOf(deps, run, sandbox))

/** It is stored nowhere: every process of the deployment derives it. */
const bearerOf = (
  { keys }: Keys,
  { id: runId, generation }: Generation,
  { instanceId }: Pick<BoundSandbox, 'instanceId'>,
) => turnToken(keys.derive('turn'), { runId, generation, instanceId })

type Draft = {
  readonly instanceId: string
  readonly staleAt: number
  readonly configuration: ReturnType<typeof configurationOf>
}

/** Prepares the configuration for the expected sandbox while the controller still processes the claim. */
export function draftConfigurations(deps: RunDeps, run: RunRow, given: Omit<Configuring, 'sandbox'>) {
  let drafted: Draft | undefined
  const draft = (sandbox: ForeseenSandbox): Draft => {
    const configuration = configurationOf(deps, run, { sandbox, ...given })
    configuration.catch(() => undefined)
    return { instanceId: sandbox.instanceId, staleAt: performance.now() + FRESH_MS, configuration }
  }
  return {
    draft: (sandbox: ForeseenSandbox): void => {
      drafted = draft(sandbox)
    },
    of: (sandbox: ForeseenSandbox) => {
      const isFor = drafted?.instanceId === sandbox.instanceId && performance.now() < drafted.staleAt
      return (drafted && isFor ? drafted : draft(sandbox)).configuration
    },
  }
}

/** An AgentHost of an earlier release rejects settings that it does not know, so it gets only those that it uses. */
function hostSettings({
  require_outcome: _outcome,
  budgets: _budgets,
  egress_hosts: _hosts,
  approvals: _approvals,
  setup_commands: _setup,
  results: _results,
  ...settings
}: SandboxSettings): HostSettings {
  return settings
}

type Configuring = {
  readonly sandbox: ForeseenSandbox
  readonly generation: number
  /** The folder of the user that the run works on, once it is prepared. */
  readonly folder: Promise<RunFolder | undefined>
  /** The session that the agent continues. */
  readonly session: Promise<Uint8Array | undefined>
}

/** The configuration of the sandbox, and the ticket that covers exactly these bytes. */
async function configurationOf(deps: RunDeps, run: RunRow, at: Configuring) {
  const { keys, clock } = deps
  const { sandbox, generation } = at
  const [folder, session] = await Promise.all([at.folder, at.session])
  const { instanceId } = sandbox
  const bearer = bearerOf({ keys }, { id: run.id, generation }, sandbox)
  const spec = run.agentSpec === null ? undefined : RequestedAgent.parse(run.agentSpec)
  const egressUrl = await modelUrlOf(deps, spec)
  const resolved = resolveAgent(spec, { ...deps.models, ...present({ egressUrl }) }, run.owner)
  const request: ConfigureRequestInput = {
    runId: run.id,
    generation,
    userId: run.owner,
    turnBearerToken: bearer,
    digestKey: runDigestKey(keys.derive('digest'), run.id),
    credential: resolved.credential,
    agent: resolved.agent,
    governance: { version: run.policyVersion, settings: hostSettings(run.settings) },
    workingDirectory: sandbox.workingDirectory(folder?.root),
    ...present({ layout: folder?.layout, session: session && digestOf(session) }),
  }
  const body = Buffer.from(JSON.stringify(ConfigureRequest.parse(request)))
  resolved.onUse?.()
  const ticket = await signTicket(keys.ticketKey, { instanceId, runId: run.id, body, now: clock() })
  return { runId: run.id, generation, ticket, body, ...present({ session }) }
}

const digestOf = (session: Uint8Array) => ({
  sha256: createHash('sha256').update(session).digest('hex'),
  bytes: session.byteLength,
})
