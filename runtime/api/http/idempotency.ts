import { createHash } from 'node:crypto'
import type { FastifyReply, FastifyRequest } from 'fastify'
import { ERROR_STATUS } from '../../../contracts/errors.ts'
import { IDEMPOTENCY_HEADER } from '../../../contracts/routes.ts'
import { canonicalJson } from '../../kit/canonical-json.ts'
import { SandboxError } from '../../kit/errors.ts'
import type { Log } from '../../kit/log.ts'
import type { IdempotencyRow, Store } from '../../store/store.ts'
import { callerOf } from './authenticate.ts'
import { InvalidRequest } from './problem.ts'

export const REPLAYED_HEADER = 'idempotent-replayed'

/**
 * Does a mutation once per idempotency key of its owner; a repetition gets what the first one answered. A route
 * has one status of success, which it sets itself.
 */
export type Once = <T>(request: FastifyRequest, reply: FastifyReply, work: () => Promise<T>) => Promise<T>

type Key = Pick<IdempotencyRow, 'owner' | 'key'>
type Deps = {
  readonly store: Pick<Store, 'claimIdempotencyKey' | 'finishIdempotencyKey'>
  readonly log: Log
  readonly now: () => Date
}

/** Faults after which nobody knows whether the work happened. */
const UNKNOWN_OUTCOME: ReadonlySet<number> = new Set([ERROR_STATUS.internal, ERROR_STATUS.deadline_exceeded])

export function createOnce({ store, log, now }: Deps): Once {
  const keep = async ({ owner, key }: Key, answer: { status: number; body: string } | undefined) => {
    try {
      await store.finishIdempotencyKey(owner, key, answer)
    } catch (error) {
      // The work is done. A repetition finds the key unfinished and does not do it again.
      log.error('could not keep the answer of an idempotency key', { error })
    }
  }
  return async <T>(request: FastifyRequest, reply: FastifyReply, work: () => Promise<T>) => {
    const key = keyOf(request)
    if (key === undefined) return work()
    const row = { owner: callerOf(request).owner, key }
    const fingerprint = fingerprintOf(request)
    const claim = await store.claimIdempotencyKey({ ...row, fingerprint, createdAt: now().toISOString() })
    if (!claim.fresh) {
      reply.header(REPLAYED_HEADER, 'true')
      return replay(claim.row, fingerprint) as T
    }
    try {
      const answer = await work()
      await keep(row, { status: reply.statusCode, body: JSON.stringify(answer ?? null) })
      return answer
    } catch (error) {
      if (isKnownRefusal(error)) await keep(row, undefined)
      throw error
    }
  }
}

/** A refusal did nothing, so its key is free again. After any other error the key stays taken. */
const isKnownRefusal = (error: unknown): boolean =>
  error instanceof SandboxError && !UNKNOWN_OUTCOME.has(ERROR_STATUS[error.code])

function replay(row: IdempotencyRow, fingerprint: string): unknown {
  if (row.fingerprint !== fingerprint) {
    throw new SandboxError('idempotency_mismatch', 'This idempotency key was used for another request.')
  }
  if (row.state === 'done') return JSON.parse(row.body ?? 'null')
  throw new SandboxError(
    'idempotency_unfinished',
    'The first request with this key has not answered. Repeat it shortly. If it never does, its outcome is ' +
      'unknown: look for its effect before you use another key.',
  )
}

function keyOf({ headers }: FastifyRequest): string | undefined {
  const key = headers[IDEMPOTENCY_HEADER]
  if (key === undefined || (typeof key === 'string' && /^[\x21-\x7e]{1,255}$/.test(key))) return key
  const message = 'must be 1 to 255 visible ASCII characters'
  throw new InvalidRequest('The idempotency key is malformed.', [{ field: IDEMPOTENCY_HEADER, message }])
}

/** Method, path and body. Of a streamed body, which is read only once, the length that was announced. */
function fingerprintOf({ method, url, body, headers }: FastifyRequest): string {
  const hash = createHash('sha256').update(`${method}\n${url}\n`)
  if (body instanceof Uint8Array) hash.update(body)
  else if (isStream(body)) hash.update(`stream ${headers['content-length'] ?? ''}`)
  else hash.update(canonicalJson(body ?? null))
  return hash.digest('hex')
}

const isStream = (body: unknown): boolean =>
  typeof body === 'object' && body !== null && Symbol.asyncIterator in body
