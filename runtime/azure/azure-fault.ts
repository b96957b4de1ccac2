import type { SecretClientOptions } from '@azure/keyvault-secrets'
import type { ErrorCode } from '../../contracts/errors.ts'
import { SandboxError } from '../kit/errors.ts'
import { Transient } from './retry-within.ts'

type PipelinePolicy = NonNullable<SecretClientOptions['additionalPolicies']>[number]['policy']
type PipelineResponse = Awaited<ReturnType<PipelinePolicy['sendRequest']>>

/** Whom a request went to; the same status means another thing from each. */
type Server = 'vault' | 'token endpoint'

type Seen = {
  readonly server: Server
  /** Undefined where nobody answered. */
  readonly status?: number
  readonly code?: string
  /** Whether the request carried a token. */
  readonly isAuthorized?: boolean
  readonly retryAfterMs?: number
}

const FINAL: Readonly<Record<Server, Readonly<Record<number, ErrorCode>>>> = {
  vault: { 401: 'credential_forbidden', 403: 'credential_forbidden', 404: 'credential_absent' },
  'token endpoint': { 400: 'credential_forbidden', 401: 'credential_forbidden', 403: 'credential_forbidden' },
}

/**
 * Sees the answers that the SDKs get. Their errors wrap one another differently in every layer, and their words
 * tell the name of the secret; the last answer on the wire says all that is needed.
 */
export class Witness {
  #last: Seen | undefined

  policy(server: Server): PipelinePolicy {
    return {
      name: 'witness',
      sendRequest: async (request, next) => {
        this.#last = { server }
        const response = await next(request)
        const isAuthorized = request.headers.has('authorization')
        this.#last = { server, status: response.status, isAuthorized, ...detailsOf(response) }
        return response
      },
    }
  }

  /**
   * What a failed attempt means: forbidden and absent are told apart and final; throttling, a fault of the server
   * and silence are `Transient`; all else is `credential_unavailable`.
   */
  judge(error: unknown): SandboxError | Transient {
    if (error instanceof SandboxError) return error
    if (!this.#last)
      return new SandboxError('credential_unavailable', 'the credential could not be asked for')
    const { server, status, code, retryAfterMs = 0 } = this.#last
    if (status === undefined) return new Transient(`the ${server} cannot be reached`)
    const said = `the ${server} answered ${status}${code === undefined ? '' : ` (${code})`}`
    if (status === 429 || status === 408 || status >= 500) return new Transient(said, retryAfterMs)
    if (status < 300 || isUnmetChallenge(this.#last)) {
      return new SandboxError('credential_unavailable', `the answer of the ${server} was not acceptable`)
    }
    return new SandboxError(FINAL[server][status] ?? 'credential_unavailable', said)
  }
}

/** The vault asked for a token, and what it asked for was not given to it. */
const isUnmetChallenge = ({ server, status, isAuthorized }: Seen): boolean =>
  server === 'vault' && status === 401 && !isAuthorized

function detailsOf({ headers, bodyAsText }: PipelineResponse): Pick<Seen, 'code' | 'retryAfterMs'> {
  const seconds = Number(headers.get('retry-after'))
  const code = codeIn(bodyAsText ?? '')
  return {
    ...(code !== undefined && { code }),
    ...(Number.isFinite(seconds) && seconds > 0 && { retryAfterMs: seconds * 1000 }),
  }
}

/** The server's own word for what is wrong. It goes into messages, so it may be nothing but a word. */
function codeIn(body: string): string | undefined {
  try {
    const { error, error_codes: numbers } = JSON.parse(body) as Record<string, unknown>
    const word = Array.isArray(numbers) ? `AADSTS${numbers[0]}` : innermostCode(error)
    return /^[A-Za-z0-9_]{1,64}$/.test(String(word)) ? String(word) : undefined
  } catch (error) {
    if (error instanceof SyntaxError || error instanceof TypeError) return undefined
    throw error
  }
}

function innermostCode(error: unknown): unknown {
  if (typeof error !== 'object' || error === null) return error
  const { code, innererror } = error as { code?: unknown; innererror?: unknown }
  return innererror === undefined ? code : innermostCode(innererror)
}
