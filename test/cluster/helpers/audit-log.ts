import { existsSync, readFileSync } from 'node:fs'

/** One request as the API server has recorded it. */
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

/** The requests to count; an absent field matches everything. */
export interface AuditQuery {
  readonly user?: string
  readonly verb?: string
  /** Plural name, with the subresource behind a slash: `pods/exec`. A plain name means the object itself. */
  readonly resource?: string
  readonly namespace?: string
  readonly name?: string
  /** Only requests that came in at this moment or later. */
  readonly since?: Date
}

/** Reads the API server's audit log, which lists each completed request with its user. */
export function createAuditLog(path: string) {
  function events(query: AuditQuery = {}): AuditEvent[] {
    if (!existsSync(path)) return []
    const lines = readFileSync(path, 'utf8').split('\n')
    // The last line may be half written.
    return lines
      .slice(0, -1)
      .map((line) => JSON.parse(line) as AuditEvent)
      .filter((event) => isAnswer(event) && matches(event, query))
  }
  return { events, count: (query: AuditQuery = {}) => events(query).length }
}

/** A watch is recorded when it begins, every other request when it ends: each is counted once. */
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
