import { createHash } from 'node:crypto'
import type { FastifyReply, FastifyRequest } from 'fastify'
import { IDEMPOTENCY_HEADER } from '../../../contracts/routes.ts'
import { canonicalJson } from '../../kit/canonical-json.ts'
import { SandboxError } from '../../kit/errors.ts'
import type { Log } from '../../kit/log.ts'
import type { IdempotencyRow } from '../../store/service-rows.ts'
import type { Store } from '../../store/store.ts'
import type { Caller } from '../runs/service.ts'
import { callerOf } from './authenticate.ts'
import { InvalidRequest } from './problem.ts'

export const REPLAYED_HEADER = 'idempotent-replayed'

/**
 * Runs a mutation once per idempotency key and owner. A repeated request gets the stored first response. `work` calls
 * `keep` to store the response in its own transaction: a process that dies before the commit has done nothing, and one
 * that dies later has stored the response. Work without `keep` must be safe to repeat. A route has a single success
 * status, which it sets itself.
 */
export type Once = <T>(
  request: FastifyRequest,
  reply: FastifyReply,
  work: (caller: Caller) => Promise<T>,
) => Promise<T>

type Deps = {
  readonly store: Pick<Store, 'readIdempotencyKey' | 'writeIdempotencyKey'>
  readonly log: Log
  readonly now: () => Date
}

export function createOnce({ store, log, now }: Deps): Once {
  return async <T>(request: FastifyRequest, reply: FastifyReply, work: (caller: Caller) => Promise<T>) => {
    const caller = callerOf(request)
    const key = keyOf(request)
    if (key === undefined) return work(caller)
    const asked = { owner: caller.owner, key, fingerprint: fingerprintOf(request) }
    const readKept = () => store.readIdempotencyKey(asked, now())
    const replay = (row: IdempotencyRow): T => {
      assertSame(row, asked.fingerprint)
      reply.header(REPLAYED_HEADER, 'true')
      return JSON.parse(row.body) as T
    }
    const rowOf = (answer: unknown): IdempotencyRow => ({
      ...asked,
      status: reply.statusCode,
      body: JSON.stringify(answer ?? null),
      createdAt: now().toISOString(),
    })
    const kept = await readKept()
    if (kept) return replay(kept)
    const keep: Caller['keep'] = async (tx, answer) => {
      if (await tx.insertIdempotencyKey(rowOf(answer))) return
      throw new SandboxError(
        'conflict',
        'Another request with this idempotency key is in progress or has finished.',
      )
    }
    try {
      const answer = await work({ ...caller, keep })
      await store
        .writeIdempotencyKey(rowOf(answer))
        // The work is done. A repeated request finds the response of its transaction, or safely repeats the work.
        .catch((error: unknown) =>
          log.error('could not store the response for an idempotency key', { error }),
        )
      return answer
    } catch (error) {
      // Of two concurrent requests with one key, the slower one fails. Return the response of the other one.
      const other = await readKept()
      if (other) return replay(other)
      throw error
    }
  }
}

function assertSame(row: IdempotencyRow, fingerprint: string): void {
  if (row.fingerprint === fingerprint) return
  throw new SandboxError('idempotency_mismatch', 'This idempotency key was used for another request.')
}

function keyOf({ headers }: FastifyRequest): string | undefined {
  const key = headers[IDEMPOTENCY_HEADER]
  if (key === undefined || (typeof key === 'string' && /^[\x21-\x7e]{1,255}$/.test(key))) return key
  const message = 'must be 1 to 255 visible ASCII characters'
  throw new InvalidRequest('The idempotency key is malformed.', [{ field: IDEMPOTENCY_HEADER, message }])
}

/** Covers method, path and body. A stream can be read only once, so only its announced length counts. */
function fingerprintOf({ method, url, body, headers }: FastifyRequest): string {
  const hash = createHash('sha256').update(`${method}\n${url}\n`)
  if (body instanceof Uint8Array) hash.update(body)
  else if (isStream(body)) hash.update(`stream ${headers['content-length'] ?? ''}`)
  else hash.update(canonicalJson(body ?? null))
  return hash.digest('hex')
}

const isStream = (body: unknown): boolean =>
  typeof body === 'object' && body !== null && Symbol.asyncIterator in body
