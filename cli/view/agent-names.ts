import type { RequestedAgent, RequestedKind } from '../../contracts/agents.ts'
import type { Client } from '../../runtime/client/client.ts'
import { present } from '../../runtime/kit/present.ts'
import { CliError } from '../cli-error.ts'
import { EXIT } from '../exit-status.ts'

/** Kinds with a shorter name on the command line. */
const SHORT_NAMES: Partial<Record<RequestedKind, string>> = { openaiCompatible: 'openai' }
export const nameOf = (kind: RequestedKind): string => SHORT_NAMES[kind] ?? kind

/** The agent of a run that names no kind: the service's default, or the first kind that has the model. */
export async function defaultAgent(
  client: Pick<Client, 'listModels'>,
  { model }: { readonly model?: string | undefined },
): Promise<RequestedAgent> {
  const { items } = await client.listModels()
  const usable = items.filter((item) => item.usable && item.kind !== 'scripted')
  const chosen =
    usable.find((item) => model !== undefined && item.model === model) ?? usable.find((item) => item.default)
  if (chosen === undefined || chosen.kind === 'scripted')
    throw new CliError('This service can start no agent with a model.', {
      status: EXIT.refused,
      hint: '"agentweaver models" lists what each kind of agent needs. A scripted agent needs its steps: --plan FILE.',
    })
  return { kind: chosen.kind, ...present({ model: model ?? chosen.model }) }
}
