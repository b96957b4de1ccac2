import type { Run } from '../../contracts/api.ts'
import type { ModelList } from '../../contracts/models.ts'
import { SandboxSettings } from '../../contracts/policy.ts'
import type { Restriction, SetRestriction } from '../../contracts/restrictions.ts'
import type { RunEgress } from '../../contracts/run-egress.ts'
import type { SettingsComparison, TrustedFolder, TrustFolder } from '../../contracts/trusted-folders.ts'
import type { Caller } from '../../runtime/api/runs/service.ts'
import { SandboxError } from '../../runtime/kit/errors.ts'

export const aModelList: ModelList = { items: [{ kind: 'scripted', usable: true, default: false }] }

/** Every folder exists and has no settings file. */
export const aComparison = (path: string): SettingsComparison => ({
  path,
  isSame: true,
  file: { digest: null, settings: SandboxSettings.parse({}), notGranted: [] },
})

/** Trusted folders by owner. */
export class MemoryFolders {
  readonly #folders = new Map<string, TrustedFolder[]>()

  list({ owner }: Caller): TrustedFolder[] {
    return this.#folders.get(owner) ?? []
  }

  trust(caller: Caller, { path, digest }: TrustFolder): SettingsComparison {
    if (digest !== null) throw new SandboxError('conflict', 'The file has changed.')
    const folder = {
      path,
      settings: 'defaults',
      origin: 'trust',
      trustedAt: '2026-01-01T00:00:00.000Z',
    } as const
    this.#folders.set(caller.owner, [folder, ...this.#others(caller, path)])
    return aComparison(path)
  }

  forget(caller: Caller, path: string): void {
    const others = this.#others(caller, path)
    if (others.length === this.list(caller).length)
      throw new SandboxError('not_found', 'No settings are in force there.')
    this.#folders.set(caller.owner, others)
  }

  #others(caller: Caller, path: string): TrustedFolder[] {
    return this.list(caller).filter((folder) => folder.path !== path)
  }
}

export const aRestriction = (
  { owner, role }: Caller,
  { scope, level, reason }: SetRestriction,
): Restriction => ({ scope, level, reason, by: owner, role, at: '2026-01-01T00:00:00.000Z' })

export const aRunEgress = ({ id, kind }: Run): RunEgress => ({
  runId: id,
  kind,
  denied: [],
  allowed: [],
  anomalies: [],
  hosts: [],
  isComplete: true,
})
