import rateLimit from '@fastify/rate-limit'
import type { FastifyInstance } from 'fastify'
import { SandboxError } from '../../kit/errors.ts'

/** Owners and addresses that are remembered for one window. */
const REMEMBERED_KEYS = 10_000

/** Makes limits of so many requests a minute available; routes and scopes choose by what they count. */
export function registerRateLimit(app: FastifyInstance, maxPerMinute: number): void {
  app.register(rateLimit, {
    global: false,
    max: maxPerMinute,
    timeWindow: 60_000,
    cache: REMEMBERED_KEYS,
    errorResponseBuilder: (_request, { max, after }) =>
      new SandboxError('rate_limited', `More than ${max} requests a minute. Try again in ${after}.`),
  })
}

/** Counts the requests of each API key in this scope, which the guard has checked before. */
export function limitPerKey(scope: FastifyInstance): void {
  scope.addHook(
    'onRequest',
    scope.rateLimit({ keyGenerator: ({ credential, ip }) => (credential ? `key ${credential.keyId}` : ip) }),
  )
}
