import { MODEL_CREDENTIAL, OF_EACH_OWNER, PROXY_IDENTITY } from '../../../contracts/egress.ts'
import { SandboxError } from '../../kit/errors.ts'
import type { Credentials } from './credentials.ts'
import { isOwnId } from './user-credentials.ts'

/** The credentials of the operator, and how placeholders are derived. */
export type OperatorCredentials = Pick<
  Credentials,
  'has' | 'isCertificate' | 'read' | 'placeholderOf' | 'variableOf'
>

const RESERVED = {
  [MODEL_CREDENTIAL]: 'the key of the model server',
  [PROXY_IDENTITY]: 'tokens of the Azure identity of the egress proxy',
} as const

/** The credentials of the proxy: the operator's list, and the key of the model server. */
export function withModelKey(
  credentials: Credentials,
  { openaiApiKey, modelCredential }: { readonly openaiApiKey?: string; readonly modelCredential?: string },
): OperatorCredentials {
  for (const [id, use] of Object.entries(RESERVED))
    if (credentials.has(id))
      throw new SandboxError(
        'invalid_config',
        `AGENTWEAVER_CREDENTIALS_FILE: the id ${id} is reserved for ${use}; use another one`,
      )
  const reserved = credentials.ids.find(isOwnId)
  if (reserved !== undefined)
    throw new SandboxError(
      'invalid_config',
      `AGENTWEAVER_CREDENTIALS_FILE: the id ${reserved} is reserved for the credentials of users; use one that does not begin with own-`,
    )
  const isKnown = modelCredential === OF_EACH_OWNER.model || credentials.has(modelCredential ?? '')
  if (modelCredential !== undefined && !isKnown)
    throw new SandboxError(
      'invalid_config',
      `AGENTWEAVER_MODEL_CREDENTIAL: AGENTWEAVER_CREDENTIALS_FILE has no credential ${modelCredential}`,
    )
  if (modelCredential !== undefined && credentials.isCertificate(modelCredential))
    throw new SandboxError(
      'invalid_config',
      `AGENTWEAVER_MODEL_CREDENTIAL: ${modelCredential} is a client certificate, and the key of a model server must be a token`,
    )
  const read = (id: string) =>
    id === MODEL_CREDENTIAL && openaiApiKey !== undefined
      ? Promise.resolve(openaiApiKey)
      : credentials.read(id)
  return { ...credentials, read }
}
