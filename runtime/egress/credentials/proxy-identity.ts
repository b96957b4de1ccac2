import { SandboxError } from '../../kit/errors.ts'
import type { Refusal } from '../refusals.ts'

/** An identity of the proxy itself, and the one server that gets its tokens. */
export interface ProxyIdentity {
  /** Base URL of the server. */
  readonly upstream: string
  /** Returns a valid token. Rejects with a `SandboxError`. */
  readonly fetch: () => Promise<string>
}

export type IdentityToken =
  | { readonly ok: true; readonly value: string }
  | { readonly ok: false; readonly refusal: Refusal; readonly status?: number }

const OPERATOR = 'Report this to the operator of Agentweaver.'
/** The SDKs of models repeat a request after it. */
const TRY_AGAIN = 503

const refuse = (reason: string, remedy: string = OPERATOR): IdentityToken & { ok: false } => ({
  ok: false,
  refusal: { rule: 'credential', reason, remedy },
})

/**
 * A token for a request to `upstream`. The state of the API names the server of a run; a state that names another server than
 * the environment of the proxy gets no token.
 */
export async function tokenOfIdentity(
  identity: ProxyIdentity | undefined,
  upstream: string,
): Promise<IdentityToken> {
  if (!identity) return refuse('this egress proxy has no Azure identity for models')
  if (spelled(upstream) !== spelled(identity.upstream))
    return refuse('the model is not on the Azure AI resource of this egress proxy')
  try {
    return { ok: true, value: await identity.fetch() }
  } catch (error) {
    if (!(error instanceof SandboxError)) throw error
    const reason = `the egress proxy cannot get a token of its Azure identity: ${error.message}`
    if (error.code !== 'credential_unavailable') return refuse(reason)
    return {
      ...refuse(reason, `Try again in some seconds. If it happens again: ${OPERATOR}`),
      status: TRY_AGAIN,
    }
  }
}

/** A URL in one spelling. */
const spelled = (url: string): string => new URL(url).href.replace(/\/+$/, '')
