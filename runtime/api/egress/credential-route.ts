import type { FastifyInstance, FastifyRequest } from 'fastify'
import { EgressCredentialRequest } from '../../../contracts/egress-control.ts'
import { EGRESS_CONTROL_ROUTES } from '../../../contracts/routes.ts'
import { messageOf } from '../../kit/errors.ts'
import type { Log } from '../../kit/log.ts'
import type { Store } from '../../store/store.ts'
import { type ControlCaller, refuse } from './control-callers.ts'
import { generationsOf, type StateParts } from './control-state.ts'
import type { RunCredentials } from './run-credentials.ts'

export interface CredentialRouteOptions extends StateParts {
  readonly store: Pick<Store, 'listNetworks'>
  readonly credentials: RunCredentials
  readonly callerOf: (request: FastifyRequest) => ControlCaller
  readonly log: Log
}

/** Of this process. A replica keeps a value for minutes, and a failure for seconds. */
const READS_PER_SECOND = 50
const NONE = 'This run has no such credential.'

/**
 * `POST /internal/egress/credentials`: the value of a credential, only for the process that inserts credentials, and only
 * while a live sandbox has a destination with it. Every other request gets the same answer.
 */
export function registerCredentialRoute(app: FastifyInstance, options: CredentialRouteOptions): void {
  const { credentials, callerOf, log } = options
  const hasRoom = roomPerSecond(READS_PER_SECOND)
  app.post(EGRESS_CONTROL_ROUTES.credentials, async (request, reply) => {
    reply.header('cache-control', 'no-store')
    const { role } = callerOf(request)
    if (role !== 'credentials') {
      log.error('a process of the egress proxy asked for a credential, which is not its task', { role })
      return refuse(reply, 403, 'Only the process that inserts credentials may use this route.')
    }
    const wanted = EgressCredentialRequest.safeParse(request.body)
    if (!wanted.success) return refuse(reply, 400, 'The request is malformed.')
    if (!hasRoom()) return refuse(reply, 429, 'Too many credentials are read at the moment.')
    const { runId, credential } = wanted.data
    const owner = await ownerWhoMayUse(options, wanted.data)
    if (owner === undefined) {
      log.warn('a credential was refused to the egress proxy', { runId, credential })
      return refuse(reply, 403, NONE)
    }
    try {
      return await reply.send(await credentials.read(credential, owner))
    } catch (error) {
      log.error('a credential cannot be read', { credential, error: messageOf(error) })
      return refuse(reply, 503, 'The credential cannot be read. The log of the API has the reason.')
    }
  })
}

/**
 * The owner of the run, if the run may use the credential. Reads the store instead of the last state that was sent, so that a
 * run that has ended gets no value.
 */
async function ownerWhoMayUse(
  options: CredentialRouteOptions,
  { runId, generation, credential }: EgressCredentialRequest,
): Promise<string | undefined> {
  const networks = await options.store.listNetworks()
  const asked = networks.filter((one) => one.runId === runId && one.generation === generation)
  const mayUse = generationsOf(asked, options).some(
    ({ restriction, destinations, modelRoute }) =>
      modelRoute?.credential === credential ||
      (restriction !== 'no-network' && destinations.some((one) => one.credential === credential)),
  )
  return mayUse ? asked[0]?.owner : undefined
}

function roomPerSecond(limit: number): () => boolean {
  let second = 0
  let count = 0
  return () => {
    const now = Math.floor(performance.now() / 1000)
    count = now === second ? count + 1 : 1
    second = now
    return count <= limit
  }
}
