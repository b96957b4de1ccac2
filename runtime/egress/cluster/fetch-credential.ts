import { once } from 'node:events'
import type { IncomingMessage } from 'node:http'
import { EgressCredentialAnswer, type EgressCredentialRequest } from '../../../contracts/egress-control.ts'
import { EGRESS_CONTROL_ROUTES } from '../../../contracts/routes.ts'
import { type ControlPlace, controlRequest } from './control-stream.ts'
import type { ReadUserSecret } from './user-vault.ts'

const FETCH_MS = 20_000
const MAX_ANSWER_BYTES = 16_384

/**
 * Asks the API for the value of a credential, or for its place in the vault, and reads it there. No error quotes the answer,
 * because it may contain the value.
 */
export async function fetchCredential(
  { readSecret, ...place }: ControlPlace & { readonly readSecret?: ReadUserSecret | undefined },
  { runId, generation, credential }: EgressCredentialRequest,
): Promise<string> {
  const body = JSON.stringify({ runId, generation, credential } satisfies EgressCredentialRequest)
  const signal = AbortSignal.timeout(FETCH_MS)
  const request = await controlRequest(place, {
    path: EGRESS_CONTROL_ROUTES.credentials,
    method: 'POST',
    signal,
    headers: { 'content-type': 'application/json', 'content-length': Buffer.byteLength(body) },
  })
  request.end(body)
  const [response] = (await once(request, 'response', { signal })) as [IncomingMessage]
  const text = await answerText(response)
  if (response.statusCode === 200) return valueFrom(answerIn(text), readSecret)
  throw new Error(REASONS[response.statusCode ?? 0] ?? `the API answered ${response.statusCode}`)
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

function answerIn(text: string): EgressCredentialAnswer {
  try {
    return EgressCredentialAnswer.parse(JSON.parse(text))
  } catch {
    // biome-ignore lint/style/useErrorCause: the cause quotes the answer.
    throw new Error('the answer of the API cannot be read; it and the proxy must be of one release')
  }
}

/** The body of an answer, which is short. */
export async function answerText(response: IncomingMessage): Promise<string> {
  const chunks: Buffer[] = []
  let bytes = 0
  for await (const chunk of response as AsyncIterable<Buffer>) {
    bytes += chunk.length
    if (bytes > MAX_ANSWER_BYTES) throw new Error('the answer of the API is too long')
    chunks.push(chunk)
  }
  return Buffer.concat(chunks).toString('utf8')
}
