import type { RunChange, RunRow } from '../../../store/store.ts'
import type { RunDeps } from '../deps.ts'

/** Whether the next sandbox of a run runs its setup commands. They do not run again after they have ended. */
export const awaitsSetup = ({ settings, setup }: Pick<RunRow, 'settings' | 'setup'>): boolean =>
  (settings.setup_commands ?? []).length > 0 && setup?.endedAt === undefined

/** The phase `setup` begins with the sandbox, so that its repository is cloned in this phase too. */
export const beginSetup = (
  { clock }: Pick<RunDeps, 'clock'>,
  run: RunRow,
  { generation }: { readonly generation: number },
): Pick<RunChange, 'setup'> =>
  awaitsSetup(run) ? { setup: { generation, startedAt: clock().toISOString() } } : {}
