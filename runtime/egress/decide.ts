import type { EgressCaller, EgressDestination, EgressGeneration, EgressRule } from '../../contracts/egress.ts'
import { Method } from '../../policies/agent/egress/schema.ts'
import type { Target } from './authority.ts'

export interface Question extends Target {
  readonly caller: EgressCaller
  /** What travels to the destination. For TLS the proxy sees no method. */
  readonly protocol: 'tls' | 'http'
  readonly method?: string | undefined
}

export interface Refusal {
  readonly rule: EgressRule
  /** The problem, without the host and port. */
  readonly reason: string
  /** The remedy for a person: the narrowest rule that would allow the connection. */
  readonly remedy: string
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
  if (generation.restriction === 'no-network' && question.caller === 'commands') return NO_NETWORK
  const named = generation.destinations.filter(({ host }) => matches(host, question))
  if (named.length === 0) return notListed(generation, question)
  const faults = named.map((destination) => faultOf(destination, generation, question))
  const allowed = named[faults.indexOf(undefined)]
  if (allowed) return { ok: true, destination: allowed }
  // The entry that passed most checks is the closest to the request.
  return faults.reduce((closest, fault) => ((fault?.check ?? 0) > (closest?.check ?? 0) ? fault : closest))
    ?.decision as Decision
}

/** The operator's list may have the host, but the settings of the run leave it out. */
function notListed({ withheld = [] }: EgressGeneration, question: Question): Decision {
  return withheld.some((host) => matches(host, question))
    ? refuse(
        'not-listed',
        'the settings of this run leave this host out',
        'A person can start the run with this host: it must be in egress_hosts of the settings, and in --egress-host if the run was started with that.',
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
          `the host is allowed only in the phase ${phases.join(', ')}`,
          'Do this during the setup of the run.',
        ),
  ({ http }, _generation, question) =>
    question.protocol === 'tls' || http === 'allow'
      ? undefined
      : refuse(
          'plain-http',
          'HTTP without TLS is not allowed for this host',
          'Use https, or add "http: allow" to its entry.',
        ),
  ({ methods }, _generation, { method }) =>
    method === undefined || methods === 'any' || methods.includes(method)
      ? undefined
      : refuse(
          'method',
          `the method ${method} is not allowed for this host, only ${methods.join(', ')}`,
          `Allow ${method} in its entry: "mode: full", with ${method} in its methods if it has any.`,
        ),
  // A tunnel that is passed on unread can carry any request.
  ({ authority }, { restriction }, { caller, method }) =>
    restriction !== 'read-only' ||
    caller !== 'commands' ||
    (method === undefined ? authority !== undefined : READS.has(method))
      ? undefined
      : refuse(
          'restricted',
          method === undefined
            ? 'a person has restricted this run to reading, and the proxy cannot see what is sent to this host'
            : `a person has restricted this run to reading, so ${method} is refused`,
          LIFT,
        ),
]

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
export function entryFor({ host, port, protocol, method }: Question): string {
  if (host.kind === 'address') return 'Use the name of the host instead of its address.'
  const plain = protocol === 'http' ? ', http: allow' : ''
  return `A person can add it to the egress file of the service, and restart the service: {host: ${host.name}, ports: [${port}], ${limitsFor(method)}${plain}, why: what the run needs it for}.`
}

/** `splice: allow`, because an entry with limits is otherwise left out where TLS cannot be read, also for HTTP without TLS. */
function limitsFor(method: string | undefined): string {
  if (method === undefined || method === 'GET' || method === 'HEAD') return 'mode: read-only, splice: allow'
  // An entry can list only the common methods.
  return Method.safeParse(method).success ? `mode: full, methods: [${method}], splice: allow` : 'mode: full'
}

/** The sentence for the refused client. */
export const refusalSentence = (host: string, port: number, { reason, remedy }: Refusal): string =>
  `Connection to ${host}:${port} refused: ${reason}. ${remedy}`
