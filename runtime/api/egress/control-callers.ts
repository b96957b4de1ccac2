import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify'
import { EGRESS_CONTROL_TOKEN, EGRESS_CREDENTIALS_TOKEN } from '../../../contracts/egress-proxy-env.ts'
import { messageOf } from '../../kit/errors.ts'
import type { Log } from '../../kit/log.ts'
import type { PodIdentities } from '../../sandboxes/provider.ts'
import type { ControlStates } from './control-hub.ts'

/** Which process of a replica calls. */
type ControlRole = keyof ControlStates

export interface ControlCaller {
  readonly role: ControlRole
  readonly expiresAt: Date
}

export interface ControlCallersOptions {
  readonly identities: PodIdentities
  /** The only accepted subject: the service account of the proxy. */
  readonly subject: string
  readonly log: Log
}

const BEARER = /^Bearer ([A-Za-z0-9._-]{1,8192})$/
/** Each container of a replica has a token for one audience, and no way to get another one. */
const AUDIENCES: Readonly<Record<ControlRole, string>> = {
  proxy: EGRESS_CONTROL_TOKEN.audience,
  credentials: EGRESS_CREDENTIALS_TOKEN.audience,
}

/** Lets only replicas of the egress proxy use an app, and returns the caller of a request. */
export function identifyCallers(
  app: FastifyInstance,
  { identities, subject, log }: ControlCallersOptions,
): (request: FastifyRequest) => ControlCaller {
  const callers = new WeakMap<FastifyRequest, ControlCaller>()
  // The hook runs for unknown routes too, so no route of this port responds without the token.
  app.addHook('onRequest', async (request, reply) => {
    const token = BEARER.exec(request.headers.authorization ?? '')?.[1]
    if (token === undefined)
      return refuse(reply, 401, 'The token of a replica of the egress proxy is required.')
    const found = await verified(identities, token)
    if (!found.ok) {
      log.warn('a caller of the control port was refused', { address: request.ip, error: found.reason })
      return refuse(reply, 401, 'The token is not valid for this port.')
    }
    if (found.subject !== subject) {
      log.warn('a caller of the control port was refused', { address: request.ip, subject: found.subject })
      return refuse(reply, 403, 'Only the egress proxy may use this port.')
    }
    callers.set(request, found)
    return undefined
  })
  return (request) => {
    const caller = callers.get(request)
    if (!caller) throw new TypeError('the hook has identified each caller')
    return caller
  }
}

export const refuse = (reply: FastifyReply, status: number, message: string) =>
  reply.code(status).send({ message })

async function verified(identities: PodIdentities, token: string) {
  let reason = ''
  for (const role of Object.keys(AUDIENCES) as ControlRole[])
    try {
      return { ok: true, role, ...(await identities.verify(token, AUDIENCES[role])) } as const
    } catch (error) {
      reason = messageOf(error)
    }
  return { ok: false, reason } as const
}
