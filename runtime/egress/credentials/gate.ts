import type { IncomingMessage, ServerResponse } from 'node:http'
import type { Readable } from 'node:stream'
import {
  type EgressDestination,
  type EgressGeneration,
  type EgressPush,
  type EgressReport,
  PROXY_IDENTITY,
} from '../../../contracts/egress.ts'
import {
  type ClientCertificate,
  parseClientCertificate,
  validityFault,
} from '../../kit/client-certificate.ts'
import { messageOf } from '../../kit/errors.ts'
import type { Target } from '../authority.ts'
import { type AcceptedPush, gatePush } from '../git/gate-push.ts'
import { gitRequestFault, isPush } from '../git/git-request.ts'
import type { PushRules } from '../git/judge-push.ts'
import type { PushFault } from '../git/push-list.ts'
import type { Refusal } from '../refusals.ts'
import { EchoSearch } from './echo.ts'
import { attachTo, findPlaceholder, withCredential } from './insert.ts'
import { type ProxyIdentity, tokenOfIdentity } from './proxy-identity.ts'
import { CredentialUses } from './uses.ts'
import type { CredentialValues } from './values.ts'

type Judged = Pick<EgressGeneration, 'runId' | 'generation' | 'placeholders' | 'push'>

export interface CredentialGateOptions {
  readonly generation: Judged
  readonly values: CredentialValues
  /** Only for requests of agents to their models. @default the proxy has none */
  readonly identity?: ProxyIdentity | undefined
  readonly report: (report: EgressReport) => void
  readonly now: () => number
  readonly repeatMs: number
}

/** A request for a destination with a credential, after it was judged by the rules of its entry. */
export interface GateRequest {
  readonly request: IncomingMessage
  readonly response: ServerResponse
  readonly target: Target
  readonly path: string
  readonly credential: string
  /** The credential is added to the request. Otherwise it replaces the placeholder. */
  readonly attach?: EgressDestination['attach']
  readonly kind?: EgressDestination['credentialKind']
}

/** What the proxy needs to connect to a host with a client certificate. */
export type FoundCertificate =
  | {
      readonly ok: true
      readonly certificate: ClientCertificate
      /** Reports the use. To be called before the host sees the certificate. */
      readonly announce: () => void
    }
  | { readonly ok: false; readonly refusal: Refusal }

export type Passage =
  | ({ readonly kind: 'passed' } & Passed)
  | { readonly kind: 'refused'; readonly refusal: Refusal }
  /** The client already has its answer, which says the same as the refusal. */
  | { readonly kind: 'answered'; readonly refusal: Refusal }

/** The headers and the body that are sent instead of those of the client, and the check of the response. */
export interface Passed {
  readonly rawHeaders: readonly string[]
  readonly body: Readable
  readonly answer: AnswerGuard
}

export interface AnswerGuard {
  /** Why the answer must not be passed on, from its headers. */
  readonly headerFault: (answer: IncomingMessage) => Refusal | undefined
  /** The body as it may be passed on. It fails with `CredentialEchoed` if it contains the credential. */
  readonly body: (answer: IncomingMessage) => Readable
}

const OPERATOR = 'Report this to the operator of Agentweaver.'
const NO_PUSH: EgressPush = { rule: 'ask', pushed: [] }
const SHORTEST_SECRET = 16
/** Branches whose last push is remembered. */
const MAX_BRANCHES = 1000

export const ECHOED: Refusal = {
  rule: 'credential-echoed',
  reason: 'the answer of the host contains the credential that was sent to it',
  remedy: 'Ask for something else. A person can change the credential, if the host shows it to others too.',
}

const ENCODED: Refusal = {
  rule: 'credential',
  reason: 'the answer of the host is encoded, so it cannot be searched for the credential',
  remedy: 'Ask for something else, or ask without the credential.',
}

/** For a proxy that inserts no credentials. */
export const NO_CREDENTIALS = {
  kind: 'refused',
  refusal: {
    rule: 'credential',
    reason: 'its entry names a credential, and this proxy inserts none',
    remedy: 'A person can remove the credential from the entry in the egress file.',
  },
} as const satisfies Passage

const pushRefusal = ({ reason, remedy }: PushFault): Refusal => ({ rule: 'push', reason, remedy })

/** Inserts credentials into the requests of one sandbox, and judges its pushes. */
export class CredentialGate {
  readonly #options: CredentialGateOptions
  readonly #uses: CredentialUses
  /** Of this process, and not yet in the state. */
  readonly #lastPushes = new Map<string, string>()
  #generation: Judged

  constructor(options: CredentialGateOptions) {
    const { generation, now, repeatMs } = options
    this.#options = options
    this.#generation = generation
    this.#uses = new CredentialUses({
      now,
      repeatMs,
      report: (data) => {
        const { runId, generation: number } = generation
        options.report({ type: 'credential-used', runId, generation: number, data })
      },
    })
  }

  /** Takes over what a newer state has for the sandbox. */
  judge(generation: Judged): void {
    this.#generation = generation
  }

  async pass(asked: GateRequest): Promise<Passage> {
    const { request, response, path, credential, kind } = asked
    const generation = this.#generation
    const { rawHeaders, method = '' } = request
    const ofGit = gitRequestFault(method, path)
    if (ofGit) return { kind: 'refused', refusal: pushRefusal(ofGit) }
    const { placeholders = [] } = generation
    const found = asked.attach
      ? attachTo(rawHeaders, asked.attach)
      : findPlaceholder(rawHeaders, path, { credential, placeholders, kind })
    if (!found.ok) return { kind: 'refused', refusal: { ...found, rule: 'credential' } }
    const repository = repositoryOf(asked)
    const gated = isPush(method, path)
      ? await gatePush(request, response, this.#rulesFor(repository))
      : ({ kind: 'passed', body: request } as const)
    if (gated.kind !== 'passed') return { kind: gated.kind, refusal: pushRefusal(gated.fault) }
    const remember = () => gated.push && this.#remember(repository, gated.push)
    const { body } = gated
    if (found.at === undefined)
      return { kind: 'passed', rawHeaders, body, answer: plainAnswer(gated, remember) }
    const value = await this.#valueOf(credential)
    if (!value.ok) return { kind: 'refused', refusal: value.refusal }
    this.#uses.add(credential, asked.target.host.name)
    const answer = searchedAnswer(new EchoSearch(value.value), gated, remember)
    const sent = withCredential(found.rawHeaders ?? rawHeaders, found, value.value)
    return { kind: 'passed', rawHeaders: sent, body, answer }
  }

  /**
   * The client certificate for a connection to a host. The host gets the chain and a signature, never the key, so its answers are
   * not searched.
   */
  async certificateFor(credential: string, host: string): Promise<FoundCertificate> {
    const value = await this.#valueOf(credential)
    if (!value.ok) return value
    const parsed = parseClientCertificate(value.value)
    const fault = parsed.ok ? validityFault(parsed.certificate, this.#options.now()) : parsed.reason
    if (!parsed.ok || fault !== undefined) {
      const reason = `the client certificate ${credential} cannot be used: ${fault}`
      return { ok: false, refusal: { rule: 'credential', reason, remedy: OPERATOR } }
    }
    return { ...parsed, announce: () => this.#uses.add(credential, host) }
  }

  #rulesFor(repository: string): PushRules {
    const { runId, push = NO_PUSH } = this.#generation
    const { rule, grant, pushed } = push
    return {
      ...{ runId, rule, grant },
      // The server compares the commit with its own. An earlier push of another replica may be in the state alone.
      hasPushed: (ref, commit) =>
        this.#lastPushes.get(`${repository} ${ref}`) === commit ||
        pushed.some((one) => one.repository === repository && one.ref === ref && one.commit === commit),
    }
  }

  /** The value for a request of the agent itself to its model, and how the answer is examined. */
  async give(credential: string, { host, upstream }: { readonly host: string; readonly upstream: string }) {
    const value =
      credential === PROXY_IDENTITY
        ? await tokenOfIdentity(this.#options.identity, upstream)
        : await this.#valueOf(credential)
    if (!value.ok) return value
    this.#uses.add(credential, host)
    const nothing = () => undefined
    // A shorter one is no secret, such as the "none" that some local servers expect, and would be found everywhere.
    const isShort = value.value.length < SHORTEST_SECRET
    const answer = isShort
      ? plainAnswer({}, nothing)
      : searchedAnswer(new EchoSearch(value.value), {}, nothing)
    return { ...value, answer }
  }

  meter(): void {
    this.#uses.flush()
  }

  close(): void {
    this.#uses.close()
  }

  async #valueOf(credential: string) {
    const { values } = this.#options
    const generation = this.#generation
    try {
      return { ok: true, value: await values.get({ ...generation, credential }) } as const
    } catch (error) {
      const refusal: Refusal = {
        rule: 'credential',
        reason: `the credential ${credential} cannot be read: ${messageOf(error)}`,
        remedy: OPERATOR,
      }
      return { ok: false, refusal } as const
    }
  }

  #remember(repository: string, { commands, report }: AcceptedPush): void {
    for (const { ref, newId } of commands) {
      if (!report.updated.has(ref)) continue
      const key = `${repository} ${ref}`
      const { runId, generation } = this.#generation
      this.#options.report({ type: 'pushed', runId, generation, data: { repository, ref, commit: newId } })
      this.#lastPushes.delete(key)
      this.#lastPushes.set(key, newId)
    }
    for (const key of this.#lastPushes.keys()) {
      if (this.#lastPushes.size <= MAX_BRANCHES) return
      this.#lastPushes.delete(key)
    }
  }
}

/** The repository of a git request, which has the same name with and without `.git`. */
const repositoryOf = ({ target: { host, port }, path }: GateRequest): string =>
  `${host.name}:${port}${path.replace(/(?:\.git)?\/git-receive-pack$/, '')}`

type Watching = { readonly push?: AcceptedPush | undefined }

function watched(answer: IncomingMessage, { push }: Watching, remember: () => void): IncomingMessage {
  if (!push || answer.statusCode !== 200) return answer
  answer.on('data', (chunk: Buffer) => push.report.push(chunk))
  answer.once('end', remember)
  return answer
}

const plainAnswer = (watching: Watching, remember: () => void): AnswerGuard => ({
  headerFault: () => undefined,
  body: (answer) => watched(answer, watching, remember),
})

const searchedAnswer = (search: EchoSearch, watching: Watching, remember: () => void): AnswerGuard => ({
  headerFault: (answer) => {
    const encoding = answer.headers['content-encoding'] ?? 'identity'
    if (search.isInHeaders(answer)) return ECHOED
    return encoding === 'identity' ? undefined : ENCODED
  },
  body: (answer) => {
    const body = search.body()
    answer.on('error', (error) => body.destroy(error))
    return watched(answer, watching, remember).pipe(body)
  },
})
