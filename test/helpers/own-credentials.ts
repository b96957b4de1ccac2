import type { CredentialCheck } from '../../runtime/api/credentials/credential-check.ts'
import { createSeal } from '../../runtime/api/credentials/sealed-value.ts'
import {
  type CredentialPlaces,
  createUserCredentialService,
} from '../../runtime/api/credentials/user-credential-service.ts'
import { UserCredentials } from '../../runtime/api/credentials/user-credentials.ts'
import type { UserVault } from '../../runtime/api/credentials/user-vault.ts'
import type { AuditTrail } from '../../runtime/api/runs/audit-trail.ts'
import { silentLog } from '../../runtime/kit/log.ts'
import { OwnerRedactors } from '../../runtime/redaction/owner-redactors.ts'
import type { Store } from '../../runtime/store/store.ts'

export const PLACES: CredentialPlaces = {
  modelServer: 'https://models.example.com/v1',
  hosts: {
    git: new Set(['gitlab.corp.example.com']),
    registry: new Set(['npm.corp.example.com', 'registry.npmjs.org']),
  },
}

type Around = {
  readonly store: Pick<
    Store,
    'engine' | 'transaction' | 'listUserCredentials' | 'readSetting' | 'noteUserCredentialUse'
  >
  readonly audit?: Pick<AuditTrail, 'append'>
  readonly places?: CredentialPlaces
  readonly vault?: UserVault
  readonly isReadByAgentHost?: boolean
  readonly keyId?: string
  readonly root?: number
  readonly now?: () => Date
  /** @default accepts every value */
  readonly check?: CredentialCheck
}

/** What the service composes for the credentials of users, over any store. */
export function ownCredentials({
  store,
  audit = { append: async () => undefined },
  places = PLACES,
  vault,
  isReadByAgentHost = false,
  keyId = 'k1',
  root = 1,
  now = () => new Date(),
  check = async () => ({ isChecked: true }),
}: Around) {
  const seal = createSeal({ key: new Uint8Array(32).fill(root), keyId })
  const redactors = new OwnerRedactors([])
  const learn = (owner: string, value: string) => redactors.learn(owner, value)
  const credentials = new UserCredentials({ store, seal, vault, learn, clock: now, log: silentLog })
  const service = createUserCredentialService({
    ...{ store, audit, credentials, seal, vault, places, isReadByAgentHost, learn, check, now },
  })
  return { service, credentials, redactors, seal }
}
