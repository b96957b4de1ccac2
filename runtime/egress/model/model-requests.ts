import type { IncomingMessage, ServerResponse } from 'node:http'
import type { Socket } from 'node:net'
import type { ModelRoute } from '../../../contracts/egress.ts'
import type { AdmitOptions } from '../admit.ts'
import { connectJudged } from '../connect-judged.ts'
import type { OpenConnection } from '../connections.ts'
import { type AnswerGuard, NO_CREDENTIALS } from '../credentials/gate.ts'
import { type Question, shownPath } from '../decide.ts'
import type { Refusal } from '../refusals.ts'
import { endWithError, RequestFailed, RequestRefused, sentenceOf } from './answers.ts'
import { openAccount, type RequestAccount, withUsage } from './budget.ts'
import { exchange } from './exchange.ts'
import { judgeBody } from './judge.ts'
import { readBody, skipBody } from './read-body.ts'
import {
  destinationOf,
  endpointOf,
  LISTED_ENDPOINTS,
  type ModelEndpoint,
  type ModelServer,
  serverOf,
} from './route.ts'

/** Requests of one sandbox at the same time. An agent sends one after the other, apart from summaries. */
const AT_ONCE = 8

interface Route {
  readonly route: ModelRoute
  readonly server: ModelServer
}

/** A request that may be sent. */
interface Sendable extends Route {
  readonly endpoint: ModelEndpoint
  readonly body: Buffer | undefined
  readonly account: RequestAccount | undefined
}

const refused = (rule: Refusal['rule'], reason: string, remedy: string) =>
  new RequestRefused({ rule, reason, remedy })

/** Serves the requests of one agent to its model. Each is judged, and gets a separate connection to the server. */
export class ModelRequests {
  readonly #options: AdmitOptions
  #open = 0

  constructor(options: AdmitOptions) {
    this.#options = options
  }

  readonly onRequest = (request: IncomingMessage, response: ServerResponse): void => {
    // Node takes the socket away from a request that has ended.
    const client = request.socket
    // A client that ends its side has cancelled the request. No SDK waits for an answer then.
    const leave = () => client.destroy()
    client.once('end', leave)
    response.once('close', () => client.off('end', leave))
    this.#open += 1
    this.#serve(request, response, client)
      .catch((error: unknown) => this.#fail(error, request, response))
      .catch(() => client.destroy())
      .finally(() => {
        this.#open -= 1
      })
  }

  async #serve(request: IncomingMessage, response: ServerResponse, client: Socket): Promise<void> {
    const found = this.#find()
    const { method = '', url = '' } = request
    const endpoint = endpointOf(method, url)
    if (endpoint === undefined)
      throw refused('path', `${method} ${shownPath(url)} is not one of ${LISTED_ENDPOINTS}`, PATH_REMEDY)
    if (request.headers.expect !== undefined) response.writeContinue()
    const asked = method === 'GET' ? undefined : await this.#judgedBody(request, { ...found, endpoint })
    const isMetered = found.route.isMetered === true
    const account = asked && (await this.#openAccount(asked, endpoint, isMetered))
    try {
      const sent = asked && (isMetered ? withUsage(asked, endpoint) : asked)
      const body = sent && Buffer.from(JSON.stringify(sent))
      await this.#send({ ...found, endpoint, body, account }, { response, client })
    } finally {
      account?.close()
    }
  }

  #openAccount(
    body: Readonly<Record<string, unknown>>,
    endpoint: ModelEndpoint,
    isMetered: boolean,
  ): Promise<RequestAccount> {
    const { connections, reserve } = this.#options
    const of = connections.sandbox
    return openAccount(body, endpoint, {
      isMetered,
      reserve: reserve && ((reservation) => reserve({ ...of, reservation })),
      report: (use) => connections.usedModel(use),
    })
  }

  async #send(
    { endpoint, body, account, ...found }: Sendable,
    { response, client }: { readonly response: ServerResponse; readonly client: Socket },
  ): Promise<void> {
    const { connections, limits } = this.#options
    const { headers, guard } = await this.#credentialOf(found)
    const connection = connections.begin(this.#questionOf(found.server), client)
    try {
      const isGone = () => response.destroyed || client.destroyed
      const upstream = await this.#connect(found, { connection, isGone })
      const sending = { server: found.server, endpoint, body, headers, guard, account, upstream }
      await exchange({ ...sending, headerBytes: limits.headerBytes }, response)
    } finally {
      connections.end(connection)
    }
  }

  /** The route in the newest state. */
  #find(): Route {
    const { connections, caller, overload } = this.#options
    if (caller !== 'agent-host') throw refused('not-listed', ONLY_AGENT, 'Ask the agent.')
    const route = connections.generation?.modelRoute
    const server = route && serverOf(route)
    if (!server) throw refused('not-listed', NO_ROUTE, 'Start a new run.')
    const decision = connections.decide(this.#questionOf(server))
    if (!decision.ok) throw new RequestRefused(decision.refusal)
    const tooMany = this.#open > AT_ONCE ? TOO_MANY : overload()
    if (tooMany) throw new RequestRefused(tooMany)
    return { route, server }
  }

  #questionOf({ target }: ModelServer): Question {
    return { ...target, caller: this.#options.caller, protocol: 'model' }
  }

  async #judgedBody(
    request: IncomingMessage,
    { route, endpoint }: Route & { readonly endpoint: ModelEndpoint },
  ): Promise<Readonly<Record<string, unknown>>> {
    const text = await readBody(request, this.#options.limits.modelBodyBytes)
    const judged = judgeBody(text, endpoint, route)
    if (!judged.ok) throw new RequestRefused(judged.refusal)
    return judged.body
  }

  async #credentialOf({
    route: { credential, header, upstream },
    server,
  }: Route): Promise<{ readonly headers: readonly string[]; readonly guard?: AnswerGuard }> {
    if (credential === undefined) return { headers: [] }
    const given = await this.#options.gate?.give(credential, { host: server.target.host.name, upstream })
    if (!given) throw new RequestRefused(NO_CREDENTIALS.refusal)
    if (!given.ok) throw new RequestRefused(given.refusal, 'status' in given ? given.status : undefined)
    const { value, answer } = given
    return {
      headers: header === 'api-key' ? ['api-key', value] : ['Authorization', `Bearer ${value}`],
      guard: answer,
    }
  }

  async #connect(
    { route, server }: Route,
    { connection, isGone }: { readonly connection: OpenConnection; readonly isGone: () => boolean },
  ): Promise<Socket> {
    const { protocol } = server
    const destination = destinationOf(route, server)
    const connected = await connectJudged(this.#options, { connection, destination, protocol, isGone })
    if (connected.ok) return connected.socket
    if (connected.refusal) throw new RequestRefused(connected.refusal)
    throw new RequestFailed(`it cannot be reached: ${connected.reason}`)
  }

  async #fail(error: unknown, request: IncomingMessage, response: ServerResponse): Promise<void> {
    const server = this.#serverNow()
    if (error instanceof RequestRefused) {
      const { refusal, status } = error
      this.#record(request, refusal, server)
      await skipBody(request, this.#options.limits.modelBodyBytes)
      endWithError(response, { status, code: refusal.rule, sentence: sentenceOf(refusal) })
      return
    }
    if (!(error instanceof RequestFailed)) throw error
    const name = server ? `${server.target.host.name}:${server.target.port}` : 'the model server'
    const sentence = `The request to the model failed at ${name}: ${error.message}.`
    endWithError(response, { status: 502, code: 'failed', sentence })
  }

  #serverNow(): ModelServer | undefined {
    const route = this.#options.connections.generation?.modelRoute
    return route && serverOf(route)
  }

  #record(
    { method, url = '' }: Pick<IncomingMessage, 'method' | 'url'>,
    refusal: Refusal,
    server: ModelServer | undefined,
  ): void {
    const { host, port } = server?.target ?? { host: { name: 'the model server' }, port: 0 }
    this.#options.connections.refuse({ ...refusal, host: host.name, port, method, path: shownPath(url) })
  }
}

const ONLY_AGENT = 'only the agent itself may call the model, not its commands'
const NO_ROUTE = 'the agent of this run does not call a model through the egress proxy'
const PATH_REMEDY = 'Use the API of OpenAI for chat completions or responses.'
const TOO_MANY: Refusal = {
  rule: 'too-many-connections',
  reason: `the agent already has ${AT_ONCE} open requests to its model`,
  remedy: 'Wait for one of them.',
}
