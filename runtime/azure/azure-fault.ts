import type { SecretClientOptions } from '@azure/keyvault-secrets'
import type { ErrorCode } from '../../contracts/errors.ts'
import { SandboxError } from '../kit/errors.ts'
import { Transient } from './retry-within.ts'

type PipelinePolicy = NonNullable<SecretClientOptions['additionalPolicies']>[number]['policy']
type PipelineResponse = Awaited<ReturnType<PipelinePolicy['sendRequest']>>

/** The server of a request. The meaning of a status depends on it. */
type Server = 'vault' | 'token endpoint'

type Seen = {
  readonly server: Server
  /** Undefined if there was no response. */
  readonly status?: number
  readonly code?: string
  /** Whether the request carried a token. */
  readonly isAuthorized?: boolean
  readonly retryAfterMs?: number
}

const FINAL: Readonly<Record<Server, Readonly<Record<number, ErrorCode>>>> = {
  vault: {
    401: 'credential_forbidden',
    403: 'credential_forbidden',
    404: 'credential_absent',
    // The name belongs to a deleted secret that the vault still keeps.
    409: 'conflict',
  },
  'token endpoint': { 400: 'credential_forbidden', 401: 'credential_forbidden', 403: 'credential_forbidden' },
}

/** One change in the vault, over all its attempts. */
export interface VaultChange {
  /** Whether the vault may have carried out the change although no attempt succeeded. */
  mayBeDone: boolean
}

/**
 * Observes the SDK's HTTP responses. SDK errors are wrapped differently in every layer and contain the secret's name, so
 * the last response decides the error instead.
 */
export class ResponseObserver {
  readonly #change: VaultChange
  #last: Seen | undefined

  constructor(change: VaultChange = { mayBeDone: false }) {
    this.#change = change
  }

  policy(server: Server): PipelinePolicy {
    return {
      name: 'response-observer',
      sendRequest: async (request, next) => {
        this.#last = { server }
        const response = await (server === 'vault' ? this.#sendChange(request, next) : next(request))
        const isAuthorized = request.headers.has('authorization')
        this.#last = { server, status: response.status, isAuthorized, ...detailsOf(response) }
        return response
      },
    }
  }

  /** Set before the request is sent, because an attempt that takes too long is abandoned without a result. */
  async #sendChange(
    ...[request, next]: Parameters<PipelinePolicy['sendRequest']>
  ): Promise<PipelineResponse> {
    const before = this.#change.mayBeDone
    this.#change.mayBeDone = true
    try {
      const response = await next(request)
      if (isRefusal(response.status)) this.#change.mayBeDone = before
      return response
    } catch (error) {
      // Only a request with a token has a body.
      if (!request.headers.has('authorization')) this.#change.mayBeDone = before
      throw error
    }
  }

  /**
   * Classifies a failed attempt. Forbidden and absent are final; throttling, server errors and timeouts are `Transient`;
   * everything else is `credential_unavailable`.
   */
  classify(error: unknown): SandboxError | Transient {
    if (error instanceof SandboxError) return error
    if (!this.#last)
      return new SandboxError('credential_unavailable', 'the credential could not be asked for')
    const { server, status, code, retryAfterMs = 0 } = this.#last
    if (status === undefined) return new Transient(`the ${server} cannot be reached`)
    const said = `the ${server} responded with ${status}${code === undefined ? '' : ` (${code})`}`
    if (isTemporary(status, code)) return new Transient(said, retryAfterMs)
    if (status < 300 || isUnmetChallenge(this.#last)) {
      return new SandboxError('credential_unavailable', `the response of the ${server} was invalid`)
    }
    return new SandboxError(FINAL[server][status] ?? 'credential_unavailable', said)
  }
}

const isTemporary = (status: number, code: string | undefined): boolean =>
  [408, 429].includes(status) || status >= 500 || (status === 409 && code === 'ObjectIsBeingRecovered')

/** After a timeout or an error of the server, the change may be done. */
const isRefusal = (status: number): boolean => status >= 400 && status < 500 && status !== 408

/** The vault sent a challenge that the SDK did not accept, so the request was never authorized. */
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

/** The server's error code. It goes into messages, so only a plain identifier is accepted. */
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
