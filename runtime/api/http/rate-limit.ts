import rateLimit from '@fastify/rate-limit'
import type { FastifyInstance } from 'fastify'
import { SandboxError } from '../../kit/errors.ts'

/** Number of keys and addresses whose counts are kept in one window. */
const REMEMBERED_KEYS = 10_000

/** Registers the rate limiter. Routes and scopes choose the key that is counted. */
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

/** Counts requests per owner, because an owner can create more keys. Runs after the guard. */
export function limitPerOwner(scope: FastifyInstance): void {
  scope.addHook(
    'onRequest',
    scope.rateLimit({
      keyGenerator: ({ credential, ip }) => (credential ? `owner ${credential.caller.owner}` : ip),
    }),
  )
}
