import * as z from 'zod'
import { CredentialId } from '../../../contracts/egress.ts'
import type { SandboxKind } from '../../../contracts/names.ts'
import { RunPhase } from '../../../contracts/policy.ts'
import { isOnContentNetwork } from './content-networks.ts'
import { MaxSentMiB, Port, Range, Why } from './fields.ts'
import { expandGit, GitEntry, GitHubEntry } from './git-presets.ts'
import { hostFault } from './host.ts'
import { modeOf } from './mode.ts'
import { isWrittenAsPlaceholder, placeholderFault } from './placeholders.ts'
import { expandPreset, PRESET_NAMES, PresetEntry } from './presets.ts'
import { limitsRequests, Method, Paths, READING, Requests } from './requests.ts'

/** One destination that sandboxes may connect to, as written in the file. */
export const Destination = z
  .strictObject({
    host: z.string().max(255),
    ports: z.array(Port).min(1).max(8),
    mode: z.enum(['read-only', 'full']),
    /** @default GET and HEAD if the mode is `read-only`, otherwise all */
    methods: z.array(Method).min(1).optional(),
    /** @default every path */
    paths: Paths.optional(),
    /** Instead of `methods` and `paths`, for different paths by method. */
    requests: Requests.optional(),
    /** @default every phase */
    phases: z.array(RunPhase).min(1).optional(),
    /** @default any process of the sandbox */
    caller: z.literal('agent-host').optional(),
    fqdn: z.literal('allow').optional(),
    /** The proxy passes TLS on unread, so it does not enforce the limits on requests inside. */
    splice: z.literal('allow').optional(),
    /** Passes TLS on unread, although the host shares its addresses with other sites. */
    fronting: z.literal('accepted').optional(),
    frontingReason: Why.optional(),
    /** Allows HTTP without TLS. */
    http: z.literal('allow').optional(),
    upgrade: z.literal('websocket').optional(),
    /** Spellings of requests that are otherwise refused. */
    allow: z
      .array(z.enum(['encoded-slash', 'get-body', 'method-override']))
      .min(1)
      .optional(),
    /** The proxy inserts this credential of the operator's list, or connects with it if it is a client certificate. */
    credential: CredentialId.optional(),
    /** The kind of credential that owners of runs may use here. Presets set it, because their paths are known to be safe. */
    accepts: z.enum(['github', 'git', 'registry']).optional(),
    /** Address ranges of a private endpoint. */
    addresses: z.array(Range).min(1).max(16).optional(),
    maxSentMiB: MaxSentMiB.optional(),
    why: Why,
  })
  .superRefine((destination, context) => {
    for (const [key, message] of faultsOf(destination))
      context.addIssue({ code: 'custom', path: [key], message })
  })
export type Destination = z.infer<typeof Destination>

type Fields = z.infer<typeof Destination>
type Fault = readonly [key: keyof Fields, message: string]

function faultsOf(destination: Fields): Fault[] {
  return CHECKS.map((check) => check(destination)).filter((fault) => fault !== undefined)
}

const isReading = (method: string) => READING.some((reading) => reading === method)

const CHECKS: readonly ((destination: Fields) => Fault | undefined)[] = [
  ({ host, requests, paths }) => {
    const fault = isWrittenAsPlaceholder(host)
      ? placeholderFault(host)
      : hostFault(host, requests?.flatMap((one) => one.paths) ?? paths)
    return fault === undefined ? undefined : ['host', fault]
  },
  ({ mode, methods = [], requests = [] }) => {
    const writing = [...methods, ...requests.flatMap((one) => one.methods)].filter((one) => !isReading(one))
    if (mode !== 'read-only' || writing.length === 0) return undefined
    return [requests.length > 0 ? 'requests' : 'methods', `${writing.join(', ')} is not reading`]
  },
  ({ requests, methods, paths }) =>
    requests && (methods ?? paths)
      ? ['requests', 'has its own methods and paths; remove the other "methods" and "paths"']
      : undefined,
  ({ ports }) => (new Set(ports).size === ports.length ? undefined : ['ports', 'names a port twice']),
  ({ fqdn, ...rest }) =>
    fqdn === 'allow' && !isRestricted(rest)
      ? ['fqdn', 'changes nothing: nothing is restricted here']
      : undefined,
  (destination) => (destination.splice === 'allow' ? spliceFault(destination) : undefined),
  (destination) => frontingFault(destination),
  (destination) => (destination.credential === undefined ? undefined : credentialFault(destination)),
  (destination) => acceptsFault(destination),
  ({ upgrade, mode, requests }) =>
    upgrade && (mode === 'read-only' || requests?.every((one) => one.methods.every(isReading)))
      ? ['upgrade', 'opens a connection on which both sides can write; the entry is for reading only']
      : undefined,
  (destination) => {
    const key = destination.upgrade ? 'upgrade' : destination.allow ? 'allow' : undefined
    const isUnread = modeOf(destination) === 'splice' && destination.http !== 'allow'
    return key && isUnread
      ? [key, 'changes nothing: the proxy passes the TLS of this entry on unread']
      : undefined
  },
]

function spliceFault(destination: Fields): Fault | undefined {
  if (!limitsRequests(destination)) return ['splice', 'changes nothing: the requests are not limited here']
  return modeOf(destination) === 'splice'
    ? undefined
    : ['splice', `needs "fronting: accepted" too, because ${SHARED}`]
}

/** The paths of an entry are the limits of its credential. */
function credentialFault({
  host,
  paths,
  requests,
  splice,
  http,
  upgrade,
  caller,
}: Fields): Fault | undefined {
  if (!paths && !requests)
    return ['credential', 'needs "paths" or "requests", which limit where the credential is sent']
  if (host.startsWith('*')) return ['credential', 'needs one host, not "*."']
  if (caller) return ['credential', 'is only for commands; remove "caller"']
  const [key] = Object.entries({ splice, http, upgrade }).find(([, value]) => value !== undefined) ?? []
  return key === undefined ? undefined : ['credential', `cannot be combined with "${key}"`]
}

const GITHUB_HOSTS = ['github.com', 'api.github.com']
/** Hosts to which an agent of kind `copilot` sends the GitHub token of its owner. */
const COPILOT_HOST = /^api(?:\.[a-z]+)?\.githubcopilot\.com$/

/** All paths of git's smart protocol. */
const GIT_PATH = /\/(?:info\/refs|git-upload-pack|git-receive-pack)$/

/** The file of a cluster has the entries of presets one by one, so the key can be written, with the limits of a preset. */
function acceptsFault(destination: Fields): Fault | undefined {
  const { accepts, host, paths, requests, http } = destination
  if (accepts === undefined) return undefined
  if (!paths && !requests)
    return ['accepts', 'needs "paths" or "requests", which limit where the credential is sent']
  if (host.startsWith('*')) return ['accepts', 'needs one host, not "*."']
  if (http) return ['accepts', 'cannot be combined with "http"']
  const fault = accepts === 'registry' ? undefined : PLACE_FAULTS[accepts](destination)
  return fault === undefined ? undefined : ['accepts', fault]
}

const PLACE_FAULTS: Readonly<Record<'github' | 'git', (destination: Fields) => string | undefined>> = {
  github: ({ host, caller }) => {
    const isOfCopilot = caller === 'agent-host' && COPILOT_HOST.test(host)
    return isOfCopilot || GITHUB_HOSTS.includes(host)
      ? undefined
      : `"github" is only for ${GITHUB_HOSTS.join(' and ')}`
  },
  git: ({ paths = [], requests = [] }) =>
    [...paths, ...requests.flatMap((one) => one.paths)].every((path) => GIT_PATH.test(path))
      ? undefined
      : '"git" needs paths that end with the names of git’s protocol, such as /info/refs',
}

const SHARED = 'the host shares its addresses with other sites of a content network'

function frontingFault(destination: Fields): Fault | undefined {
  const { host, fronting, frontingReason } = destination
  if (!fronting)
    return frontingReason === undefined ? undefined : ['frontingReason', 'belongs to "fronting: accepted"']
  if (frontingReason === undefined) return ['fronting', `needs a "frontingReason", because ${SHARED}`]
  if (!isOnContentNetwork(host))
    return ['fronting', 'changes nothing: the host is not in the list of content networks']
  return modeOf(destination) === 'terminate'
    ? ['fronting', 'changes nothing: the proxy reads the requests, because the entry limits them']
    : undefined
}

/** Whether a destination has restrictions other than its name and ports. */
export const isRestricted = (destination: Restrictions): boolean =>
  limitsRequests(destination) ||
  destination.phases !== undefined ||
  destination.caller !== undefined ||
  destination.maxSentMiB !== undefined

export type Restrictions = Pick<
  Fields,
  'mode' | 'methods' | 'paths' | 'requests' | 'phases' | 'caller' | 'maxSentMiB'
>

/** A destination, or a preset that stands for several. */
const Entry = z
  .discriminatedUnion(
    'preset',
    [PresetEntry, GitEntry, GitHubEntry, Destination.safeExtend({ preset: z.undefined().optional() })],
    {
      error: ({ code }) =>
        code === 'invalid_union'
          ? `must be one of ${[...PRESET_NAMES, 'git', 'github'].join(', ')}`
          : undefined,
    },
  )
  .transform(({ preset, ...entry }): Destination[] =>
    preset === undefined ? [entry as Destination] : expandEntry({ preset, ...entry } as Preset),
  )

type Preset = z.infer<typeof PresetEntry> | z.infer<typeof GitEntry> | z.infer<typeof GitHubEntry>

const expandEntry = (entry: Preset): Destination[] =>
  entry.preset === 'git' || entry.preset === 'github' ? expandGit(entry) : expandPreset(entry)

const Destinations = z.array(Entry).transform((entries, context): Destination[] => {
  const seen = new Set<string>()
  for (const [index, destinations] of entries.entries()) {
    for (const { place, caller } of destinations.flatMap(placesOf)) {
      const key = `${place} ${caller}`
      const message = `${place} is named a second time; merge or remove one of the two entries, which may be a preset for this host`
      if (seen.has(key)) context.addIssue({ code: 'custom', path: [index, 'host'], message })
      seen.add(key)
    }
  }
  return entries.flat()
})

/** AgentHost may have its own entry for a host that commands use with other limits. */
const placesOf = ({ host, ports, caller }: Fields) =>
  ports.map((port) => ({ place: `${host}:${port}`, caller: caller ?? 'any' }))

/** `policies/agent/egress.yaml`. */
export const EgressFile = z.strictObject({
  apiVersion: z.literal('agentweaver.io/v1'),
  kind: z.literal('EgressPolicy'),
  name: z.string().regex(/^[a-z][a-z0-9-]*$/),
  classes: z.strictObject({ agent: Destinations, command: Destinations } satisfies Record<
    SandboxKind,
    z.ZodType
  >),
})
export type EgressFile = z.infer<typeof EgressFile>
