import type { RunDeps, RunLimits } from '../../../runtime/api/runs/deps.ts'
import { silentLog } from '../../../runtime/kit/log.ts'
import type { Store } from '../../../runtime/store/store.ts'
import { noRestrictions } from '../../helpers/no-restrictions.ts'

type Options = { readonly holder?: string; readonly limits: Partial<RunLimits> }

/** What picking a run needs, in a process that shares the store with others. */
export const queueDeps = (store: Store, { holder = 'me', limits }: Options): RunDeps =>
  ({
    store,
    provider: { shared: {}, namespace: 'sandboxes', draft: (name: string) => ({ name }) },
    keys: { keyId: 'k' },
    clock: () => new Date(),
    limits,
    holder: { id: holder },
    restrictions: noRestrictions(),
    log: silentLog,
  }) as unknown as RunDeps
