import { OF_EACH_OWNER } from '../../contracts/egress.ts'
import { reasonForCredentials } from './credentials-container.ts'
import type { Environment } from './schema.ts'

type Around = Pick<Environment, 'egress' | 'infra'>

/** Kinds of agents that could not reach their models in this environment. */
export function modelMistakes(
  { openaiCompatible, copilot, foundry }: Environment['models'],
  around: Around,
): string[] {
  const { egress, infra } = around
  const { mode, credentials = [] } = egress
  const key = openaiCompatible?.credential
  const rules: readonly (readonly [boolean, string])[] = [
    [
      openaiCompatible !== undefined && mode !== 'proxy',
      `models.openaiCompatible: is there, but egress.mode is ${mode}, and only the egress proxy inserts the key of the server`,
    ],
    [
      foundry !== undefined && mode !== 'proxy',
      `models.foundry: is there, but egress.mode is ${mode}, and only the egress proxy has the identity for its models`,
    ],
    [
      key !== undefined && key !== OF_EACH_OWNER.model && !credentials.some(({ id }) => id === key),
      `models.openaiCompatible.credential: egress.credentials has no entry ${key}`,
    ],
    [
      mode === 'proxy' && key === OF_EACH_OWNER.model && reasonForCredentials(around) === undefined,
      `models.openaiCompatible.credential: ${key} is the key of each owner, and nothing inserts it: add "credentials": [] to egress, and sizes.egressProxy.credentials`,
    ],
    [
      credentials.some(({ id, kind }) => id === key && kind !== undefined),
      `models.openaiCompatible.credential: ${key} is a client certificate, and the key of a model server must be a token`,
    ],
    [
      foundry !== undefined && infra.azure?.modelHost === undefined,
      'models.foundry: is there, but infra.azure.modelHost is missing: name the resource in the stack file (model), and run "pulumi up" and "npm run environment" again',
    ],
    [
      mode === 'closed' && copilot !== undefined,
      'models: names models, but egress.mode is closed, and no agent reaches them',
    ],
  ]
  return rules.flatMap(([applies, message]) => (applies ? [message] : []))
}
