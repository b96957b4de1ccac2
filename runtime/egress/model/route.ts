import { type EgressDestination, MODEL_BASE_PATH, type ModelRoute } from '../../../contracts/egress.ts'
import { parseHostName } from '../../../policies/agent/egress/host-name.ts'
import type { Target } from '../authority.ts'
import type { Dialable } from '../dial.ts'

const PREFIX = '/model'

/** Requests that the Copilot SDK and the OpenAI SDK need. Files, batches and stored responses are left out. */
const ENDPOINTS = ['POST /chat/completions', 'POST /responses', 'POST /embeddings', 'GET /models'] as const
export type ModelEndpoint = (typeof ENDPOINTS)[number]

/** Where the model of a run is. */
export interface ModelServer {
  readonly target: Target
  readonly protocol: 'http' | 'https'
  /** Path of the base URL, without a slash at the end. */
  readonly basePath: string
}

/** Whether a request is for a model. Its target has the origin form, as requests to a server have. */
export const isForModel = (url: string): boolean => url === PREFIX || url.startsWith(`${PREFIX}/`)

/** The endpoint of a request, in exactly one spelling. Undefined if it is not listed. */
export function endpointOf(method: string, url: string): ModelEndpoint | undefined {
  if (!url.startsWith(`${MODEL_BASE_PATH}/`)) return undefined
  const asked = `${method} ${url.slice(MODEL_BASE_PATH.length)}`
  return ENDPOINTS.find((endpoint) => endpoint === asked)
}

export const LISTED_ENDPOINTS = ENDPOINTS.join(', ')

export const pathOf = (endpoint: ModelEndpoint): string => endpoint.slice(endpoint.indexOf(' ') + 1)

/** Undefined if the URL has something that the proxy would have to leave out. */
export function serverOf({ upstream }: Pick<ModelRoute, 'upstream'>): ModelServer | undefined {
  const { protocol, hostname, port, pathname, username, password, search, hash } = new URL(upstream)
  const host = parseHostName(hostname.replace(/^\[(.*)\]$/, '$1'))
  if (host.kind === 'refused' || `${username}${password}${search}${hash}` !== '') return undefined
  const isTls = protocol === 'https:'
  return {
    target: { host, port: port === '' ? (isTls ? 443 : 80) : Number(port) },
    protocol: isTls ? 'https' : 'http',
    basePath: pathname.replace(/\/+$/, ''),
  }
}

/** The server as a destination that only AgentHost may reach. */
export const destinationOf = (
  { addresses, isPrivateAllowed }: ModelRoute,
  { target, protocol }: ModelServer,
): EgressDestination & Dialable => ({
  host: target.host.name,
  ports: [target.port],
  methods: 'any',
  phases: ['setup', 'work'],
  caller: 'agent-host',
  ...(addresses && { addresses }),
  isPrivateAllowed,
  mustBePrivate: protocol === 'http',
})
