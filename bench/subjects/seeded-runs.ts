import { SandboxSettings } from '../../contracts/policy.ts'
import { silentLog } from '../../runtime/kit/log.ts'
import { openStore } from '../../runtime/store/open-store.ts'
import type { NewRun, Store } from '../../runtime/store/store.ts'

/** Opens the store of a service that does not run, fills it, and closes it. */
export async function seedStore(file: string, fill: (store: Store) => Promise<void>): Promise<void> {
  const store = await openStore({ kind: 'sqlite', file }, { log: silentLog })
  await fill(store)
  await store.close()
}

export const seededRun = (number: number, over: Partial<NewRun> = {}): NewRun => ({
  ...{ id: `run_${number.toString(16).padStart(32, '0')}`, kind: 'agent', owner: 'bench', state: 'queued' },
  ...{ task: 'wait for a person', workspace: { kind: 'empty' }, agent: { kind: 'scripted' } },
  ...{ agentSpec: { kind: 'scripted', plan: { turns: [[]] } }, labels: {}, interactive: true },
  ...{ settings: SandboxSettings.parse({}), policyVersion: 'p', keyId: 'k', endsWithService: false },
  ...over,
})
