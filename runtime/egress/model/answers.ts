import type { ServerResponse } from 'node:http'
import type { EgressRule } from '../../../contracts/egress.ts'
import {
  EGRESS_REASON_HEADER,
  EGRESS_RETRY_AFTER_SECONDS,
  EGRESS_RULE_HEADER,
} from '../../../contracts/egress.ts'
import { asHeader, type Refusal } from '../refusals.ts'

/** The request must not be sent on, or its answer must not be passed on. */
export class RequestRefused extends Error {
  readonly refusal: Refusal
  readonly status: number

  /** `status`: for a refusal that is no longer true after some seconds. */
  constructor(refusal: Refusal, status = statusOf(refusal)) {
    super(refusal.reason)
    this.refusal = refusal
    this.status = status
  }
}

/** The server cannot be reached, or its answer cannot be used. */
export class RequestFailed extends Error {}

/**
 * The SDK repeats requests after 429 and 5xx, and reads 401 and 403 as a wrong credential. AgentHost repeats a request after 429
 * or 503 with `Retry-After`. It repeats it without a limit if the rule is `restricted`, because a person lifts the restriction.
 */
const STATUS: Readonly<Partial<Record<EgressRule, number>>> = {
  budget: 402,
  'proxy-unavailable': 503,
  restricted: 503,
  'too-many-connections': 429,
}

const UNAVAILABLE = 503

const statusOf = ({ rule }: Refusal): number => STATUS[rule] ?? 400

export const sentenceOf = ({ reason, remedy }: Refusal): string =>
  `The request to the model was refused: ${reason}. ${remedy}`

/** Ends a response in the form in which the SDKs of models expect an error, so that they show the sentence. */
export function endWithError(
  response: ServerResponse,
  { status, code, sentence }: { readonly status: number; readonly code: string; readonly sentence: string },
): void {
  if (response.headersSent || response.destroyed) {
    response.destroy()
    return
  }
  response.writeHead(status, {
    [EGRESS_REASON_HEADER]: asHeader(sentence),
    [EGRESS_RULE_HEADER]: code,
    'content-type': 'application/json',
    connection: 'close',
    ...(status === UNAVAILABLE && { 'retry-after': `${EGRESS_RETRY_AFTER_SECONDS}` }),
  })
  response.end(JSON.stringify({ error: { message: sentence, type: 'agentweaver', code } }))
}
