import { EgressCredentialAnswer, type EgressCredentialRequest } from '../../../contracts/egress-control.ts'
import { EGRESS_CONTROL_ROUTES } from '../../../contracts/routes.ts'
import { type ControlPlace, parseAnswer, postControl } from './control-request.ts'
import type { ReadUserSecret } from './user-vault.ts'

const FETCH_MS = 20_000

/** Asks the API for the value of a credential, or for its place in the vault, and reads it there. */
export async function fetchCredential(
  { readSecret, ...place }: ControlPlace & { readonly readSecret?: ReadUserSecret | undefined },
  { runId, generation, credential }: EgressCredentialRequest,
): Promise<string> {
  const { text } = await postControl(place, {
    path: EGRESS_CONTROL_ROUTES.credentials,
    sent: { runId, generation, credential } satisfies EgressCredentialRequest,
    signal: AbortSignal.timeout(FETCH_MS),
    expected: [200],
    reasons: REASONS,
  })
  return valueFrom(parseAnswer(EgressCredentialAnswer, text), readSecret)
}

/** A command of the run reads these words. */
const REASONS: Readonly<Record<number, string>> = {
  403: 'this run has no such credential',
  429: 'too many credentials are read at the moment',
  503: 'the log of the API has the reason',
}

/** The value of a credential, which this process may have to read from the vault. */
export async function valueFrom(
  answer: EgressCredentialAnswer,
  readSecret: ReadUserSecret | undefined,
): Promise<string> {
  if ('value' in answer) return answer.value
  if (readSecret) return readSecret(answer.secret)
  throw new Error('it is in a vault, and this proxy has no AGENTWEAVER_EGRESS_VAULT_URL')
}
