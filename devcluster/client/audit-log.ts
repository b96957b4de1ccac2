import { existsSync, readFileSync } from 'node:fs'

/** One request in the audit log of the API server. */
export interface AuditEvent {
  readonly auditID: string
  readonly verb: string
  readonly user: { readonly username: string }
  readonly objectRef?: {
    readonly resource?: string
    readonly subresource?: string
    readonly namespace?: string
    readonly name?: string
  }
  readonly stage: string
  readonly responseStatus?: { readonly code?: number }
  readonly requestReceivedTimestamp: string
}

/** A filter for requests. An absent field matches everything. */
export interface AuditQuery {
  readonly user?: string
  readonly verb?: string
  /**
   * Plural name, with the subresource after a slash: `pods/exec`. Without a subresource it matches requests for the
   * object itself.
   */
  readonly resource?: string
  readonly namespace?: string
  readonly name?: string
  /** Only requests received at or after this time. */
  readonly since?: Date
}

/** Reads the API server's audit log. A request appears in it once the response is sent. */
export function createAuditLog(path: string) {
  function events(query: AuditQuery = {}): AuditEvent[] {
    if (!existsSync(path)) return []
    const lines = readFileSync(path, 'utf8').split('\n')
    // The last line may be incomplete.
    return lines
      .slice(0, -1)
      .map((line) => JSON.parse(line) as AuditEvent)
      .filter((event) => isAnswer(event) && matches(event, query))
  }
  return { events, count: (query: AuditQuery = {}) => events(query).length }
}

/** Counts each request once: a watch is recorded when it starts, every other request when it ends. */
function isAnswer({ verb, stage }: AuditEvent): boolean {
  return stage === (verb === 'watch' ? 'ResponseStarted' : 'ResponseComplete')
}

function matches(event: AuditEvent, query: AuditQuery): boolean {
  const { resource = '', subresource, namespace, name } = event.objectRef ?? {}
  const actual = {
    user: event.user.username,
    verb: event.verb,
    resource: subresource ? `${resource}/${subresource}` : resource,
    namespace,
    name,
  }
  const { since, ...wanted } = query
  if (since && new Date(event.requestReceivedTimestamp) < since) return false
  return Object.entries(wanted).every(
    ([key, value]) => value === undefined || actual[key as keyof typeof actual] === value,
  )
}
