import { CLAIM_LIFETIME } from './claims/extend-claim.ts'
import { WATCH_DEFAULTS } from './client/shared-watch.ts'
import { TRANSPORT_DEFAULTS } from './client/transport.ts'
import type { ProviderTiming } from './provider-options.ts'

/** Timeouts in production; tests use shorter ones. */
export const PROVIDER_TIMING: ProviderTiming = {
  transport: TRANSPORT_DEFAULTS,
  watch: WATCH_DEFAULTS,
  lifetime: CLAIM_LIFETIME,
  startMs: 15_000,
  suspectAfterMs: 2_000,
  deleteMs: 90_000,
  unreadyMs: 60_000,
  checkEveryMs: 5_000,
}
