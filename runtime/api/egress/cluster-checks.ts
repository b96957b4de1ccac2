import { randomUUID } from 'node:crypto'
import { CREDENTIAL_CHECK, type CredentialVerdict } from '../../../contracts/credential-check.ts'
import type { EgressCredentialAnswer } from '../../../contracts/egress-control.ts'
import { unchecked } from '../../credential-check/run-check.ts'
import { bestEffort } from '../../kit/best-effort.ts'
import { delay } from '../../kit/deadline.ts'
import { SandboxError } from '../../kit/errors.ts'
import type { Log } from '../../kit/log.ts'
import { WAITING_CHECKS } from '../../store/credential-checks.ts'
import type { UserCredentialRow } from '../../store/service-rows.ts'
import type { Store } from '../../store/store.ts'
import type { AskServer } from '../credentials/credential-check.ts'
import type { ReplicaChecks } from './check-routes.ts'
import { PROXY_SEEN_MS } from './control-hub.ts'

export interface ClusterChecksOptions {
  readonly store: Pick<
    Store,
    | 'countProxies'
    | 'insertCredentialCheck'
    | 'claimCredentialCheck'
    | 'endCredentialCheck'
    | 'readCredentialVerdict'
    | 'deleteCredentialCheck'
  >
  /** The value of a credential, or its place in the vault. */
  readonly answerFor: (row: UserCredentialRow) => EgressCredentialAnswer
  readonly log: Log
  /** @default 15 s */
  readonly waitMs?: number
}

const LOOK_EVERY_MS = 200
const NO_REPLICA = 'no replica of the egress proxy is connected to the service'

const erased = () =>
  new SandboxError(
    'conflict',
    'An operator erased your data while this credential was checked, so it was not set. If you still use the service, set it again.',
  )

const tooMany = (waitMs: number) =>
  new SandboxError(
    'conflict',
    `${WAITING_CHECKS.perOwner} of your credentials are being checked, which is the limit. Set this one again in ${waitMs / 1000} seconds.`,
  )

export interface ClusterChecks extends ReplicaChecks {
  readonly askServer: AskServer
}

/**
 * Lets a replica of the egress proxy check a credential, because the API can neither read the vault nor reach the server. The
 * request is a row in the store, because the replica may be connected to another API process.
 */
export function createClusterChecks({
  store,
  answerFor,
  log,
  waitMs = CREDENTIAL_CHECK.waitMs,
}: ClusterChecksOptions): ClusterChecks {
  /** `giveUpAt` is before the end of the row, so only the erasure of the owner deletes the row earlier. */
  const untilAnswered = async (id: string, giveUpAt: number): Promise<CredentialVerdict> => {
    while (performance.now() < giveUpAt) {
      await delay(LOOK_EVERY_MS)
      const verdict = await store.readCredentialVerdict(id)
      if (verdict === undefined && performance.now() < giveUpAt) throw erased()
      if (verdict !== undefined && verdict !== 'waiting') return verdict
    }
    return unchecked(`no replica of the egress proxy has asked its server within ${waitMs / 1000} seconds`)
  }
  return {
    async askServer(plan, { row }) {
      if ((await store.countProxies(PROXY_SEEN_MS)) === 0) return unchecked(NO_REPLICA)
      const id = randomUUID()
      const giveUpAt = performance.now() + waitMs
      const insertion = await store.insertCredentialCheck({ id, credential: row, plan }, waitMs)
      if (insertion === 'owner_limit') throw tooMany(waitMs)
      if (insertion === 'limit') return unchecked('too many credentials are checked at the moment')
      try {
        return await untilAnswered(id, giveUpAt)
      } finally {
        await bestEffort(log, 'delete the check of a credential', () => store.deleteCredentialCheck(id))
      }
    },
    async begin(id) {
      const found = await store.claimCredentialCheck(id)
      return found && { plan: found.plan, credential: answerFor(found.credential) }
    },
    end: (id, verdict) => store.endCredentialCheck(id, verdict),
  }
}
