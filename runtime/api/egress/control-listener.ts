import { readFile } from 'node:fs/promises'
import Fastify, { type FastifyInstance, type FastifyReply } from 'fastify'
import * as z from 'zod'
import { EgressControlMessage, EgressReportBatch } from '../../../contracts/egress-control.ts'
import { EGRESS_CONTROL_ROUTES, JSON_LINES_MEDIA_TYPE } from '../../../contracts/routes.ts'
import { bestEffort } from '../../kit/best-effort.ts'
import { messageOf } from '../../kit/errors.ts'
import type { Log } from '../../kit/log.ts'
import { present } from '../../kit/present.ts'
import type { Store } from '../../store/store.ts'
import { listen } from '../start/listen.ts'
import { type BudgetRouteOptions, registerBudgetRoutes } from './budget-routes.ts'
import { type CheckRouteOptions, registerCheckRoutes } from './check-routes.ts'
import { type ControlCaller, type ControlCallersOptions, identifyCallers, refuse } from './control-callers.ts'
import type { ControlHub } from './control-hub.ts'
import { MessageWriter } from './control-state.ts'
import { type CredentialRouteOptions, registerCredentialRoute } from './credential-route.ts'
import type { ReportWriter } from './report-writer.ts'

export interface ControlListenerOptions
  extends ControlCallersOptions,
    BudgetRouteOptions,
    Omit<CheckRouteOptions, 'callerOf'>,
    Omit<CredentialRouteOptions, 'store' | 'callerOf'> {
  readonly hub: ControlHub
  readonly writer: Pick<ReportWriter, 'accept'>
  readonly store: Pick<Store, 'noteProxy' | 'listNetworks'>
  /** File with the public keys that verify tokens of sandboxes. Read for every message, because keys rotate. */
  readonly jwksFile: string
  readonly log: Log
}

const MAX_BODY_BYTES = 1_048_576
/** A replica that does not read is disconnected. It connects again, and its lease ends otherwise. */
const MAX_UNSENT_BYTES = 67_108_864
const MAX_STREAMS = 64
const Query = z.strictObject({ proxy: z.guid() })
const Keys = z.object({ keys: EgressControlMessage.shape.keys })

/** The routes for replicas of the egress proxy, on a port that only they can reach. */
export function buildControlApp(options: ControlListenerOptions): FastifyInstance {
  const { writer, log } = options
  const app = Fastify({ bodyLimit: MAX_BODY_BYTES, requestTimeout: 30_000, forceCloseConnections: true })
  const callerOf = identifyCallers(app, options)
  let streams = 0
  app.get(EGRESS_CONTROL_ROUTES.control, async (request, reply) => {
    const query = Query.safeParse(request.query)
    if (!query.success) return refuse(reply, 400, 'The query must name the replica: ?proxy=UUID.')
    if (streams >= MAX_STREAMS) return refuse(reply, 503, 'Too many replicas are connected to this process.')
    streams += 1
    reply.hijack()
    reply.raw.once('close', () => {
      streams -= 1
    })
    serveStream(options, reply, { ...callerOf(request), proxy: query.data.proxy })
    return undefined
  })
  app.post(EGRESS_CONTROL_ROUTES.events, async (request, reply) => {
    const batch = EgressReportBatch.safeParse(request.body)
    if (!batch.success) {
      log.error('a replica of the egress proxy sent malformed reports', { error: messageOf(batch.error) })
      return refuse(reply, 400, 'The reports are malformed.')
    }
    await writer.accept(batch.data)
    return reply.code(204).send()
  })
  registerCredentialRoute(app, { ...options, callerOf })
  registerCheckRoutes(app, { ...options, callerOf })
  registerBudgetRoutes(app, options)
  return app
}

type Stream = ControlCaller & { readonly proxy: string }

/** Sends the state until the token of the replica ends. The replica then connects again with its next token. */
function serveStream(
  { hub, store, jwksFile, log }: ControlListenerOptions,
  { raw }: FastifyReply,
  { proxy, role, expiresAt }: Stream,
): void {
  const messages = new MessageWriter()
  // A replica counts if sandboxes can reach it, which its other process does not decide.
  const note = async (isConnected: boolean) => {
    if (role === 'proxy')
      await bestEffort(log, 'note a replica of the egress proxy', () => store.noteProxy(proxy, isConnected))
  }
  raw.writeHead(200, { 'content-type': JSON_LINES_MEDIA_TYPE, 'cache-control': 'no-store' })
  raw.socket?.setNoDelay(true)
  let sending = note(true)
  const unsubscribe = hub.subscribe((news) => {
    if (!news.isDueFor[role]) return
    sending = sending.then(async () => {
      if (raw.destroyed) return
      const { keys } = Keys.parse(JSON.parse(await readFile(jwksFile, 'utf8')))
      const checks = role === 'credentials' && news.checks.length > 0 ? news.checks : undefined
      raw.write(messages.write(news[role], { keys, ...present({ checks }) }))
      if (raw.writableLength > MAX_UNSENT_BYTES) raw.destroy()
      await note(true)
    })
    sending = sending.catch((error: unknown) => {
      log.error('the control stream of a replica failed', { error: messageOf(error) })
      raw.destroy()
    })
  })
  const expiry = setTimeout(() => raw.end(), Math.max(0, expiresAt.getTime() - Date.now()))
  expiry.unref()
  raw.on('error', () => raw.destroy())
  raw.once('close', () => {
    clearTimeout(expiry)
    unsubscribe()
    void sending.then(() => note(false))
  })
}

/** Listens before the service is ready, and also while it is not. */
export async function serveEgressControl(
  options: ControlListenerOptions,
  address: { readonly host: string; readonly port: number },
): Promise<{ readonly url: string; close(): Promise<void> }> {
  const app = buildControlApp(options)
  const url = await listen(app, address)
  return { url, close: () => app.close() }
}
