import type { IncomingMessage, ServerResponse } from 'node:http'
import { Readable } from 'node:stream'
import { pushEncodingFault } from './git-request.ts'
import { judgePush, type PushRules } from './judge-push.ts'
import { type PushCommand, type PushFault, PushList } from './push-list.ts'
import { PushReport, refusedReport } from './push-report.ts'

export type GatedPush =
  /** `body` replaces the body of the request. */
  | { readonly kind: 'passed'; readonly body: Readable; readonly push?: AcceptedPush | undefined }
  /** The client already has its answer. */
  | { readonly kind: 'answered'; readonly fault: PushFault }
  | { readonly kind: 'refused'; readonly fault: PushFault }

export interface AcceptedPush {
  readonly commands: readonly PushCommand[]
  readonly report: PushReport
}

/** The objects of a refused push are read, so that git reads the answer. A larger push is cut off. */
const MAX_DRAINED = 1024 ** 3

/** Judges a request to `git-receive-pack` before the first byte of its body is sent on. */
export async function gatePush(
  request: IncomingMessage,
  response: ServerResponse,
  rules: PushRules,
): Promise<GatedPush> {
  const encoded = pushEncodingFault(request.headers)
  if (encoded) return { kind: 'refused', fault: encoded }
  // A client that only ends its side would otherwise keep its connections for minutes.
  const leave = () => request.destroy()
  request.socket.once('end', leave)
  try {
    return await readPush(request, response, rules)
  } finally {
    request.socket.off('end', leave)
  }
}

async function readPush(
  request: IncomingMessage,
  response: ServerResponse,
  rules: PushRules,
): Promise<GatedPush> {
  // The headers were judged, so the client may send the body.
  if (request.headers.expect !== undefined) response.writeContinue()
  delete request.headers.expect
  const chunks = request.iterator({ destroyOnReturn: false })
  const list = new PushList()
  const start: Buffer[] = []
  let reading = list.push(Buffer.alloc(0))
  while (reading.kind === 'more') {
    const next = await chunks.next()
    if (next.done) reading = list.end()
    else {
      start.push(next.value)
      reading = list.push(next.value)
    }
  }
  if (reading.kind === 'refused') return answerWith(reading, list)
  const fault = reading.kind === 'push' ? judgePush(list.commands, rules) : undefined
  if (fault) return answerWith(fault, list)
  const push =
    reading.kind === 'push'
      ? { commands: list.commands, report: new PushReport(list.capabilities) }
      : undefined
  return { kind: 'passed', body: Readable.from(joined(start, chunks), { objectMode: false }), push }

  async function answerWith(found: PushFault, { commands, capabilities }: PushList): Promise<GatedPush> {
    const report = refusedReport({ commands, capabilities }, found)
    if (!report) return { kind: 'refused', fault: found }
    let drained = 0
    for (let next = await chunks.next(); !next.done; next = await chunks.next()) {
      drained += next.value.length
      if (drained > MAX_DRAINED) return { kind: 'refused', fault: found }
    }
    response.writeHead(200, {
      'content-type': 'application/x-git-receive-pack-result',
      'cache-control': 'no-cache',
    })
    response.end(report)
    return { kind: 'answered', fault: found }
  }
}

async function* joined(start: readonly Buffer[], rest: AsyncIterator<Buffer>): AsyncGenerator<Buffer> {
  yield* start
  for (let next = await rest.next(); !next.done; next = await rest.next()) yield next.value
}
