import type { Log } from '../../../kit/log.ts'
import type { ProviderCheck } from '../../provider.ts'
import type { KubeApi } from '../client/kube-api.ts'
import { claimsIn, sandboxesIn } from '../client/resource.ts'
import { SharedWatch, WATCH_DEFAULTS, type WatchTiming } from '../client/shared-watch.ts'
import { ClaimObject, SandboxObject } from './claim-objects.ts'

/** The two watches that all claims of a namespace share. */
export type ClaimWatches = {
  readonly claims: SharedWatch<ClaimObject>
  readonly sandboxes: SharedWatch<SandboxObject>
  /** Health of both watches, for the readiness route. */
  checks(): ProviderCheck[]
  start(signal: AbortSignal): Promise<void>
  close(): Promise<void>
}

type Options = {
  readonly api: KubeApi
  readonly namespace: string
  readonly log: Log
  readonly timing?: WatchTiming
}

export function createClaimWatches({ namespace, ...shared }: Options): ClaimWatches {
  const claims = new SharedWatch({
    ...shared,
    resource: claimsIn(namespace),
    parse: (value) => ClaimObject.parse(value),
  })
  const sandboxes = new SharedWatch({
    ...shared,
    resource: sandboxesIn(namespace),
    parse: (value) => SandboxObject.parse(value),
  })
  const { silenceMs } = shared.timing ?? WATCH_DEFAULTS
  return {
    claims,
    sandboxes,
    checks: () => [
      checkOf('watch of claims', claims.silentMs, silenceMs),
      checkOf('watch of sandboxes', sandboxes.silentMs, silenceMs),
    ],
    async start(signal) {
      await Promise.all([claims.start(signal), sandboxes.start(signal)])
    },
    async close() {
      await Promise.all([claims.close(), sandboxes.close()])
    },
  }
}

/**
 * A silent watch is restarted after `silenceMs`, which is normal. It counts as stuck only if it is still silent after twice
 * that time.
 */
const STUCK_AFTER = 2

function checkOf(name: string, silentMs: number, silenceMs: number): ProviderCheck {
  if (silentMs === Number.POSITIVE_INFINITY) return { name, ok: false, detail: 'nothing received yet' }
  const detail = `last data ${Math.round(silentMs / 1000)} s ago`
  return { name, ok: silentMs <= STUCK_AFTER * silenceMs, detail }
}
