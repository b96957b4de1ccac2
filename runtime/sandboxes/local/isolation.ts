import type { BackendName } from '../../../contracts/backends.ts'
import { directBackend } from '../../executors/direct.ts'
import { type Selection, type SelectOptions, selectBackend } from '../../executors/select.ts'
import { SandboxError } from '../../kit/errors.ts'

export type IsolationWish = {
  /** Use exactly this backend; fail if it does not work. */
  readonly only?: BackendName
  readonly allowDirect: boolean
  readonly toolRoots: readonly string[]
}

/**
 * Selects the isolation for sandboxes on this machine. If no backend works and the operator did not ask for a specific
 * one, sandboxes still serve files, and every command is refused with the reason.
 */
export async function selectIsolation(wish: IsolationWish): Promise<Selection> {
  const options: SelectOptions = wish
  try {
    return await selectBackend(options)
  } catch (error) {
    const isUnavailable = error instanceof SandboxError && error.code === 'isolation_unavailable'
    if (!isUnavailable || wish.only !== undefined) throw error
    return withoutCommands(error.message)
  }
}

function withoutCommands(reason: string): Selection {
  const isolation = { backend: directBackend.name, isRealIsolation: false, enforcesEgress: false, reason }
  const message =
    'no isolation works on this machine, so commands are refused; run `agentweaver doctor` for remedies'
  return {
    backend: directBackend,
    detection: { ok: true, isolation, warnings: [{ category: 'no-isolation', message }] },
    passedOver: [],
  }
}
