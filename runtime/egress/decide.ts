import type { EgressCaller, EgressDestination, EgressGeneration, EgressRule } from '../../contracts/egress.ts'
import { Method } from '../../policies/agent/egress/requests.ts'
import type { Target } from './authority.ts'
import { destinationOf, serverOf } from './model/route.ts'
import { matchesPath } from './path.ts'
import type { Refusal } from './refusals.ts'
import type { RequestFacts } from './request-rules.ts'

export interface Question extends Target {
  readonly caller: EgressCaller
  /**
   * `tls` is passed on unread, `https` is terminated by the proxy, and `connect` may become each of them. `model` is a
   * request of the agent to the server of its model.
   */
  readonly protocol: 'connect' | 'tls' | 'https' | 'http' | 'model'
  /** The request, where the proxy can read it. */
  readonly request?: RequestFacts | undefined
}

export type Decision =
  | { readonly ok: true; readonly destination: EgressDestination }
  | { readonly ok: false; readonly refusal: Refusal }

const refuse = (rule: EgressRule, reason: string, remedy: string): Decision => ({
  ok: false,
  refusal: { rule, reason, remedy },
})

/**
 * Decides whether a caller may connect to a destination. `generation` is the caller's sandbox in the newest state, or
 * undefined if the state does not list it.
 */
export function decide(generation: EgressGeneration | undefined, question: Question): Decision {
  if (!generation)
    return refuse('run-ended', 'the sandbox has no network access any more', 'Start a new run.')
  if (question.protocol === 'model') return decideModel(generation, question)
  if (generation.restriction === 'no-network' && question.caller === 'commands') return NO_NETWORK
  const named = entriesFor(generation, question).sort(credentialsFirst)
  if (named.length === 0) return notListed(generation, question)
  const faults = named.map((destination) => faultOf(destination, generation, question))
  const allowed = named[faults.indexOf(undefined)]
  if (allowed) return { ok: true, destination: allowed }
  // The entry that passed most checks is the closest to the request.
  return faults.reduce((closest, fault) => ((fault?.check ?? 0) > (closest?.check ?? 0) ? fault : closest))
    ?.decision as Decision
}

/**
 * The entries that match the host. Where AgentHost has an entry of its own, no other counts for it: commands may use the same
 * host with other limits and another credential.
 */
function entriesFor({ destinations }: EgressGeneration, question: Question): EgressDestination[] {
  const named = destinations.filter(({ host }) => matches(host, question))
  const own = named.filter(({ caller, ports }) => caller === 'agent-host' && ports.includes(question.port))
  return question.caller === 'agent-host' && own.length > 0 ? own : named
}

/** A pattern such as `*.example.com` may match the host of a credential too. Its TLS must not be passed on unread then. */
const credentialsFirst = (a: EgressDestination, b: EgressDestination): number =>
  Number(b.credential !== undefined) - Number(a.credential !== undefined)

/** A restriction of the network applies to commands. Only a frozen run may not ask its model. */
function decideModel({ modelRoute: route }: EgressGeneration, { caller, host, port }: Question): Decision {
  const server = route && serverOf(route)
  const isMeant = server?.target.host.name === host.name && server.target.port === port
  if (!server || !isMeant || caller !== 'agent-host')
    return refuse('not-listed', 'it is not the model server of this run', 'Start a new run.')
  if (route.isFrozen) return refuse('restricted', 'a person has frozen this run', LIFT)
  return { ok: true, destination: destinationOf(route, server) }
}

/** The operator's list may have the host, but the settings of the run leave it out. */
function notListed({ runId, withheld = [] }: EgressGeneration, question: Question): Decision {
  return withheld.some((host) => matches(host, question))
    ? refuse(
        'not-listed',
        'the settings of this run leave this host out',
        `A person can allow it: agentweaver egress allow ${question.host.name} --run ${runId} --reason TEXT.`,
      )
    : refuse('not-listed', 'the host is not in the list of destinations of this run', entryFor(question))
}

type Check = (
  destination: EgressDestination,
  generation: EgressGeneration,
  question: Question,
) => Decision | undefined

const LIFT = 'A person can lift the restriction: agentweaver restrict normal.'
const NO_NETWORK = refuse('restricted', 'a person has turned off the network of this run', LIFT)
const READS = new Set(['GET', 'HEAD'])

const PHASE_REMEDIES = {
  work: 'Name what needs the host in setup_commands of the settings of the run, or a person can add the phase work to its entry in the egress file of the service, and restart the service.',
  setup:
    'Let the agent run the command after the setup, or a person can add the phase setup to its entry in the egress file of the service, and restart the service.',
} as const

const CHECKS: readonly Check[] = [
  ({ ports }, _generation, question) =>
    ports.includes(question.port)
      ? undefined
      : refuse(
          'port',
          `port ${question.port} of this host is not allowed, only ${ports.join(', ')}`,
          `A person can add ${question.port} to the ports of its entry in the egress file of the service, and restart the service.`,
        ),
  ({ caller }, _generation, question) =>
    caller === 'any' || caller === question.caller
      ? undefined
      : refuse(
          'not-listed',
          'only the agent itself may reach this host, not its commands',
          entryFor(question),
        ),
  ({ phases }, { phase }) =>
    phases.includes(phase)
      ? undefined
      : refuse(
          'phase',
          `the host is allowed only in the phase ${phases.join(', ')}, and the run is in the phase ${phase}`,
          PHASE_REMEDIES[phase],
        ),
  ({ http }, _generation, { protocol }) =>
    protocol !== 'http' || http === 'allow'
      ? undefined
      : refuse(
          'plain-http',
          'HTTP without TLS is not allowed for this host',
          'Use https, or add "http: allow" to its entry.',
        ),
  // The process that holds no credential has no authority for the hosts of credentials.
  ({ authority, credential }, _generation, { protocol }) =>
    protocol !== 'tls' || (authority ?? credential) === undefined
      ? undefined
      : refuse('request', 'the proxy must read the requests to this host', 'Connect again.'),
  methodCheck,
  pathCheck,
  needsCheck,
  restrictionCheck,
]

/**
 * A tunnel that is passed on unread, and a websocket, can carry anything. The requests to a destination with a credential
 * are read by the process that inserts it.
 */
function restrictionCheck(
  { authority, credential }: EgressDestination,
  { restriction }: EgressGeneration,
  { caller, protocol, request }: Question,
) {
  if (restriction !== 'read-only' || caller !== 'commands') return undefined
  const isUnread = protocol === 'tls' || (protocol === 'connect' && !authority && !credential)
  if (isUnread)
    return refuse(
      'restricted',
      'a person has restricted this run to reading, and the proxy cannot see what is sent to this host',
      LIFT,
    )
  if (!request || (READS.has(request.method) && !request.needs.includes('websocket'))) return undefined
  return refuse(
    'restricted',
    `a person has restricted this run to reading, so ${request.method} is refused here`,
    LIFT,
  )
}

const requestsOf = ({ requests, methods }: EgressDestination) => requests ?? [{ methods, paths: ['/**'] }]

const allows = ({ methods }: { methods: readonly string[] | 'any' }, method: string) =>
  methods === 'any' || methods.includes(method)

function methodCheck(destination: EgressDestination, _generation: EgressGeneration, { request }: Question) {
  const rules = requestsOf(destination)
  if (!request || rules.some((rule) => allows(rule, request.method))) return undefined
  const listed = [...new Set(rules.flatMap(({ methods }) => methods))].join(', ')
  return refuse(
    'method',
    `the method ${request.method} is not allowed for this host, only ${listed}`,
    `Allow ${request.method} in its entry: "mode: full", with ${request.method} in its methods if it has any.`,
  )
}

/** The longest list of patterns in a sentence. */
const SHOWN_PATTERNS = 8

function pathCheck(destination: EgressDestination, _generation: EgressGeneration, { request }: Question) {
  if (!request) return undefined
  const { method, path } = request
  const patterns = requestsOf(destination).flatMap((rule) => (allows(rule, method) ? rule.paths : []))
  if (patterns.some((pattern) => matchesPath(pattern, path))) return undefined
  const listed = patterns.slice(0, SHOWN_PATTERNS).join(', ')
  const shown = shownPath(path.spelling)
  // A pattern has no percent-encoding.
  const pattern = shown.replaceAll(/[^/]*%[^/]*/g, '*')
  const rest = patterns.length > SHOWN_PATTERNS ? ', and others' : ''
  return refuse(
    'path',
    `${method} is not allowed for the path ${shown}, only for ${listed}${rest}`,
    `A person can add it to "requests" of its entry in the egress file: {methods: [${method}], paths: ["${pattern}"]}.`,
  )
}

const MAX_SHOWN_PATH = 200

/** The path without its query, which may contain a secret. */
export const shownPath = (path: string): string =>
  path
    .split('?', 1)
    .join()
    .replaceAll(/[^\x21-\x7e]/g, '?')
    .slice(0, MAX_SHOWN_PATH)

const SAID = {
  'encoded-slash': 'the path contains %2f',
  'get-body': 'a GET or HEAD request with a body is not allowed for this host',
  'method-override': 'a header or a key of the query can replace the method',
  websocket: 'an upgrade to a websocket is not allowed for this host',
} as const

function needsCheck(
  { allow = [], upgrade }: EgressDestination,
  _generation: EgressGeneration,
  { request }: Question,
) {
  const missing = request?.needs.find((need) =>
    need === 'websocket' ? upgrade !== 'websocket' : !allow.includes(need),
  )
  if (missing === undefined) return undefined
  const permission = missing === 'websocket' ? 'upgrade: websocket' : `allow: [${missing}]`
  return refuse('request', SAID[missing], `A person can add "${permission}" to its entry in the egress file.`)
}

function faultOf(destination: EgressDestination, generation: EgressGeneration, question: Question) {
  for (const [index, check] of CHECKS.entries()) {
    const decision = check(destination, generation, question)
    if (decision) return { check: index, decision }
  }
  return undefined
}

/** A wildcard matches exactly one more label. Addresses match no entry, because entries are names. */
function matches(pattern: string, { host }: Target): boolean {
  if (host.kind === 'address') return false
  if (!pattern.startsWith('*.')) return pattern === host.name
  const suffix = pattern.slice(1)
  const label = host.name.slice(0, -suffix.length)
  return host.name.endsWith(suffix) && label !== '' && !label.includes('.')
}

/** The narrowest entry that would allow a request. */
export function entryFor({ host, port, protocol, request }: Question): string {
  if (host.kind === 'address') return 'Use the name of the host instead of its address.'
  const plain = protocol === 'http' ? ', http: allow' : ''
  return `A person can add it to the egress file of the service, and restart the service: {host: ${host.name}, ports: [${port}], ${limitsFor(request?.method)}${plain}, why: what the run needs it for}.`
}

function limitsFor(method: string | undefined): string {
  if (method === undefined || method === 'GET' || method === 'HEAD') return 'mode: read-only'
  // An entry can list only the common methods.
  return Method.safeParse(method).success ? `mode: full, methods: [${method}]` : 'mode: full'
}

/** The sentence for the refused client. */
export const refusalSentence = (host: string, port: number, { reason, remedy }: Refusal): string =>
  `Connection to ${port === 0 ? host : `${host}:${port}`} refused: ${reason}. ${remedy}`
