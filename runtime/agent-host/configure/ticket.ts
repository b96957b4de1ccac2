import { createHash } from 'node:crypto'
import { readFileSync } from 'node:fs'
import { createLocalJWKSet, errors, type JSONWebKeySet, type JWTVerifyGetKey, jwtVerify } from 'jose'
import type { z } from 'zod'
import { TICKET, TicketClaims } from '../../../contracts/configure.ts'
import { equalsInConstantTime } from '../../kit/constant-time.ts'
import { messageOf, SandboxError } from '../../kit/errors.ts'
import { present } from '../../kit/present.ts'

export type TicketCheck = {
  /** The mounted public keys. Read for every ticket, so that a key rotation needs no restart. */
  readonly jwksFile: string
  /** The audience that the ticket must have. */
  readonly instanceId: string
  readonly now: () => Date
}

const refuse = (why: string, cause?: unknown) =>
  new SandboxError('unauthenticated', `the ticket is refused: ${why}`, { cause })

/** The claims of a ticket whose signature, times and audience are verified. */
export type Ticket = z.infer<typeof TicketClaims>

/** Verifies everything except the body digest. Throws `unauthenticated`. */
export const verifyTicket = async (ticket: string, check: TicketCheck): Promise<Ticket> =>
  verifyTicketWith(keysOf(check), ticket, check)

export async function verifyTicketWith(
  keys: JWTVerifyGetKey,
  ticket: string,
  check: Pick<TicketCheck, 'instanceId' | 'now'>,
): Promise<Ticket> {
  const { payload } = await jwtVerify(ticket, keys, {
    algorithms: [TICKET.algorithm],
    audience: check.instanceId,
    clockTolerance: TICKET.leewaySeconds,
    maxTokenAge: TICKET.lifetimeSeconds,
    currentDate: check.now(),
    requiredClaims: ['exp', 'iat', 'sub', 'aud', 'body_sha256'],
  }).catch((error) => {
    throw refuse(error instanceof errors.JOSEError ? error.code : messageOf(error), error)
  })
  const claims = TicketClaims.safeParse(payload)
  if (!claims.success) throw refuse('a claim is malformed')
  if (claims.data.exp - claims.data.iat > TICKET.lifetimeSeconds) throw refuse('its lifetime is too long')
  return claims.data
}

/** Throws `unauthenticated` if the ticket was signed for another body. */
export function assertTicketCovers(ticket: Ticket, body: Uint8Array): void {
  const digest = createHash('sha256').update(body).digest('hex')
  if (!equalsInConstantTime(digest, ticket.body_sha256)) throw refuse('it is for another body')
}

/** The imported keys and the file text they came from. Importing a key takes longer than reading the file. */
const imported = new WeakMap<TicketCheck, { readonly text: string; readonly keys: JWTVerifyGetKey }>()

function keysOf(check: TicketCheck): JWTVerifyGetKey {
  const { jwksFile } = check
  try {
    const text = readFileSync(jwksFile, 'utf8')
    const known = imported.get(check)
    if (known?.text === text) return known.keys
    const keys = createLocalJWKSet(JSON.parse(text) as JSONWebKeySet)
    imported.set(check, { text, keys })
    return keys
  } catch (error) {
    throw unreadable(jwksFile, error)
  }
}

/** Imports the mounted keys ahead of the first ticket. */
export async function importKeys(check: TicketCheck): Promise<void> {
  const { keys } = JSON.parse(readFileSync(check.jwksFile, 'utf8')) as JSONWebKeySet
  const getKey = keysOf(check)
  for (const { kid } of keys)
    await getKey({ alg: TICKET.algorithm, ...present({ kid }) }, { payload: '', signature: '' })
}

const unreadable = (file: string, cause: unknown) =>
  new SandboxError('unavailable', `the executor's public keys cannot be read from ${file}`, { cause })
