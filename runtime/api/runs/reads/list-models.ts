import { REQUESTED_KINDS, type RequestedAgent, type RequestedKind } from '../../../../contracts/agents.ts'
import type { ModelList, OfferedModel } from '../../../../contracts/models.ts'
import { messageOf, SandboxError } from '../../../kit/errors.ts'
import { admitAgent } from '../admit/admit-agent.ts'
import type { RunDeps } from '../deps.ts'
import type { RunService } from '../service.ts'

/** The kinds in whose order the default is looked for. */
const PREFERRED: readonly RequestedKind[] = ['openaiCompatible', 'foundry', 'copilot']

/** Where a run may name any model, one stands for all. */
const ANY_MODEL = 'any'

type Deps = Pick<RunDeps, 'models' | 'modelProxy'>

/**
 * Lists the agents that a caller can request. Each item is the answer of the function that admits a run, so the list and the
 * start of a run never disagree.
 */
export const createModelList = (deps: Deps): Pick<RunService, 'listModels'> => ({
  listModels: async ({ owner }): Promise<ModelList> => {
    const named = REQUESTED_KINDS.flatMap((kind) => modelsOf(kind, deps).map((model) => ({ kind, model })))
    const items = await Promise.all(
      named.map(async ({ kind, model }): Promise<OfferedModel> => {
        const reason = await refusalOf(deps, agentOf(kind, model ?? ANY_MODEL), owner)
        return {
          kind,
          ...(model !== undefined && { model }),
          usable: reason === undefined,
          default: false,
          ...(reason !== undefined && { reason }),
        }
      }),
    )
    const preset = PREFERRED.flatMap((kind) => items.filter((item) => item.kind === kind)).find(
      ({ usable }) => usable,
    )
    return { items: items.map((item) => ({ ...item, default: item === preset })) }
  },
})

const modelsOf = (kind: RequestedKind, { models: { names = {} } }: Deps): readonly (string | undefined)[] =>
  (kind === 'scripted' ? undefined : names[kind]) ?? [undefined]

const agentOf = (kind: RequestedKind, model: string): RequestedAgent =>
  kind === 'scripted' ? { kind, plan: { turns: [[]] } } : { kind, model }

/** The message with which a run would be refused. */
async function refusalOf(deps: Deps, agent: RequestedAgent, owner: string): Promise<string | undefined> {
  try {
    await admitAgent(deps, agent, owner)
    return undefined
  } catch (error) {
    if (error instanceof SandboxError) return messageOf(error)
    throw error
  }
}
