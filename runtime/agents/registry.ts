import type { AgentConfig, RequestedAgent } from '../../contracts/agents.ts'
import type { ModelRoute } from '../../contracts/egress.ts'
import { SandboxError } from '../kit/errors.ts'
import type { AgentDeps, AgentSession } from './agent.ts'
import { copilot } from './copilot/kind.ts'
import { foundry } from './foundry/kind.ts'
import type { AgentKind, KindName, ModelSettings, ResolvedAgent } from './kind.ts'
import { openaiCompatible } from './openai-compatible/kind.ts'
import { invalidRequest } from './requested-model.ts'
import { scripted } from './scripted/kind.ts'

type Requestable = RequestedAgent['kind']

/** Every kind of `AgentConfig`. One that callers can request also has `resolve`. */
type Registry = { readonly [K in KindName]: AgentKind<K> } & {
  readonly [K in Requestable]: Required<Pick<AgentKind<K>, 'resolve'>>
}

const KINDS: Registry = { scripted, copilot, openaiCompatible, foundry }

/**
 * Completes a caller's request. A sandbox without an agent needs no credential. Throws `invalid_request` if the operator does
 * not offer the kind or the model, or has not configured it.
 */
export function resolveAgent(
  request: RequestedAgent | undefined,
  models: ModelSettings,
  owner: string,
): ResolvedAgent {
  if (request === undefined) return { agent: { kind: 'none' }, credential: { kind: 'none' } }
  if (models.kinds && !models.kinds.includes(request.kind))
    throw invalidRequest(
      `this service offers no agents of kind ${request.kind}, only ${models.kinds.join(', ')}; the operator can add models.${request.kind} to the environment file (AGENTWEAVER_AGENT_KINDS)`,
    )
  const kind: Required<Pick<AgentKind<Requestable>, 'resolve'>> = KINDS[request.kind]
  return kind.resolve(request, { ...models, owner })
}

/** The model server that this agent reaches through the egress proxy, if there is a proxy. */
export function modelRouteOf(request: RequestedAgent, models: ModelSettings): ModelRoute | undefined {
  const kind: Pick<AgentKind<Requestable>, 'route'> = KINDS[request.kind]
  return kind.route?.(request, models)
}

/** Whether the agent connects to its servers itself, through the proxy that is between them, if any. */
export function connectsItself({ kind }: RequestedAgent): boolean {
  const { connectsItself: does }: Pick<AgentKind<Requestable>, 'connectsItself'> = KINDS[kind]
  return does === true
}

/** The kind of credential that the proxy inserts into the agent's own connections, if the owner of the run has set one. */
export function insertedFor({ kind }: RequestedAgent): 'github' | undefined {
  const { inserted }: Pick<AgentKind<Requestable>, 'inserted'> = KINDS[kind]
  return inserted
}

/** Whether a run of this agent requires a report of the outcome, unless its request says otherwise. */
export function requiresOutcome({ kind }: RequestedAgent): boolean {
  const { isOutcomeOptional }: Pick<AgentKind<Requestable>, 'isOutcomeOptional'> = KINDS[kind]
  return isOutcomeOptional !== true
}

/** Creates the agent of a run. Throws `configure_failed` or a credential error. */
export async function createAgent(config: AgentConfig, deps: AgentDeps): Promise<AgentSession> {
  if (config.kind === 'none') {
    throw new SandboxError('configure_failed', 'A sandbox of kind none has no agent to create')
  }
  const kind: Pick<AgentKind<KindName>, 'create'> = KINDS[config.kind]
  return kind.create(config, deps)
}
