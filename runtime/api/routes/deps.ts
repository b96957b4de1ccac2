import type { Downloads } from '../http/downloads.ts'
import type { Once } from '../http/idempotency.ts'
import type { OpenStreams } from '../http/sse.ts'
import type { RunService } from '../runs/service.ts'

/** Dependencies of every group of routes. */
export interface RouteDeps {
  readonly service: RunService
  readonly once: Once
  readonly streams: OpenStreams
  readonly downloads: Downloads
}
