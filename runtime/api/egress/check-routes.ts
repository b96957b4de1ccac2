import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify'
import type { CredentialVerdict } from '../../../contracts/credential-check.ts'
import {
  type EgressCheckAnswer,
  EgressCheckRequest,
  EgressCheckVerdict,
} from '../../../contracts/egress-control.ts'
import { EGRESS_CONTROL_ROUTES } from '../../../contracts/routes.ts'
import { messageOf } from '../../kit/errors.ts'
import type { Log } from '../../kit/log.ts'
import { type ControlCaller, refuse } from './control-callers.ts'

/** The checks that replicas of the proxy carry out. */
export interface ReplicaChecks {
  /** Returns the check to one caller only. */
  begin(id: string): Promise<EgressCheckAnswer | undefined>
  end(id: string, verdict: CredentialVerdict): Promise<void>
}

export interface CheckRouteOptions {
  readonly checks: ReplicaChecks
  readonly callerOf: (request: FastifyRequest) => ControlCaller
  readonly log: Log
}

/** The routes with which the process that inserts credentials begins a check of a credential, and reports its result. */
export function registerCheckRoutes(
  app: FastifyInstance,
  { checks, callerOf, log }: CheckRouteOptions,
): void {
  const refused = (request: FastifyRequest, reply: FastifyReply) => {
    const { role } = callerOf(request)
    if (role === 'credentials') return undefined
    log.error('a process of the egress proxy asked for the check of a credential, which is not its task', {
      role,
    })
    return refuse(reply, 403, 'Only the process that inserts credentials may use this route.')
  }
  app.post(EGRESS_CONTROL_ROUTES.checks, async (request, reply) => {
    reply.header('cache-control', 'no-store')
    const no = refused(request, reply)
    if (no) return no
    const wanted = EgressCheckRequest.safeParse(request.body)
    if (!wanted.success) return refuse(reply, 400, 'The request is malformed.')
    try {
      const found = await checks.begin(wanted.data.id)
      return found
        ? await reply.send(found)
        : refuse(reply, 404, 'There is no such check, or another replica carries it out.')
    } catch (error) {
      log.error('a credential that is to be checked cannot be read', { error: messageOf(error) })
      return refuse(reply, 503, 'The credential cannot be read. The log of the API has the reason.')
    }
  })
  app.post(EGRESS_CONTROL_ROUTES.verdicts, async (request, reply) => {
    const no = refused(request, reply)
    if (no) return no
    const report = EgressCheckVerdict.safeParse(request.body)
    if (!report.success) return refuse(reply, 400, 'The result is malformed.')
    await checks.end(report.data.id, report.data.verdict)
    return reply.code(204).send()
  })
}
