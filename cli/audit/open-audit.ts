import { readFile } from 'node:fs/promises'
import { resolve } from 'node:path'
import { type AuditPage, type AuditVerification, DEPLOYMENT_CHAIN } from '../../contracts/audit.ts'
import { readAuditKey } from '../../runtime/audit/audit-key.ts'
import { entryOf } from '../../runtime/audit/entry.ts'
import type { AuditKey } from '../../runtime/audit/record.ts'
import { verifyDeployment } from '../../runtime/audit/verify-deployment.ts'
import type { Client } from '../../runtime/client/client.ts'
import type { AuditFilter } from '../../runtime/client/record-calls.ts'
import { messageOf } from '../../runtime/kit/errors.ts'
import { usageError } from '../cli-error.ts'

export type AuditSearch = AuditFilter & {
  /** The id of a run, or `deployment`. Without it, all chains. */
  readonly run?: string
}

/** The audit of a service, or of a copied store. */
export interface Audit extends AsyncDisposable {
  read(search: AuditSearch): Promise<AuditPage>
  verify(run: string | undefined): AsyncIterable<AuditVerification>
}

/** The owner of a run may read its records. All other reads need an operator's key. */
export const auditOfService = (client: Client, close: () => PromiseLike<void> | undefined): Audit => ({
  read: ({ run, ...filter }) =>
    run === undefined || run === DEPLOYMENT_CHAIN
      ? client.readAudit({ ...filter, ...(run !== undefined && { run }) })
      : client.readRunAudit(run, filter),
  verify: (run) => client.verifyAudit(run === undefined ? {} : { run }),
  async [Symbol.asyncDispose]() {
    await close()
  },
})

type Copy = { readonly store: string; readonly keys: readonly string[]; readonly cwd: string }
const DEFAULT_LIMIT = 100

/** Opens a copied store read-only, without starting a service. */
export async function auditOfCopy({ store, keys, cwd }: Copy): Promise<Audit> {
  // Imported here because it loads SQLite, which no other command needs.
  const { openAuditCopy } = await import('../../runtime/store/open-audit-copy.ts')
  const auditKeys = await Promise.all(keys.map((file) => readKey(resolve(cwd, file))))
  const copy = openAuditCopy(resolve(cwd, store))
  return {
    async read({ run, limit = DEFAULT_LIMIT, ...filter }) {
      const chain = run === undefined ? {} : { runId: run === DEPLOYMENT_CHAIN ? '' : run }
      const { items, ...page } = await copy.readAudit({ ...filter, ...chain, limit })
      return { items: items.map(entryOf), ...page }
    },
    verify: (run) => verifyDeployment(copy, auditKeys, run),
    [Symbol.asyncDispose]: () => copy.close(),
  }
}

async function readKey(file: string): Promise<AuditKey> {
  const content = await readFile(file).catch((error: unknown) => {
    throw usageError(`The key file cannot be read: ${messageOf(error)}`)
  })
  const key = readAuditKey(content)
  if (key) return key
  throw usageError(
    `${file} does not contain a deployment key (32 bytes, or their base64).`,
    'Your own service keeps it in keys/deployment.key of its state folder; "npm run keys" writes it to the file deployment-key.',
  )
}
