import { join } from 'node:path'
import type { RunEvent, SettingsIgnoredReason } from '../../../../contracts/events.ts'
import { type SandboxSettingsPatch, SETTINGS_FILE } from '../../../../contracts/policy.ts'
import { present } from '../../../kit/present.ts'
import type { TrustedFolder } from '../../../store/service-rows.ts'
import type { Transaction } from '../../../store/store.ts'
import { parseSettings, type SettingsContent } from './settings-file.ts'

/** Where a run's settings come from: a folder of this machine, a caller that sent them, or nowhere. */
export type SettingsSource =
  | { readonly kind: 'folder'; readonly path: string; readonly content: SettingsContent }
  | { readonly kind: 'sent'; readonly patch: SandboxSettingsPatch }

export type SettingsInForce = {
  readonly patch: SandboxSettingsPatch
  /** What the run says about them. */
  readonly notices: readonly RunEvent[]
}

/**
 * The settings of a run. In a folder of this machine the service's own copy counts, never the file, since agents can
 * write it: the first run makes the copy, and a file that differs from it is reported. One transaction with the run.
 */
export async function settleSettings(
  tx: Pick<Transaction, 'trustFirst'>,
  source: SettingsSource,
  { owner, at }: { readonly owner: string; readonly at: string },
): Promise<SettingsInForce> {
  if (source.kind === 'sent') return { patch: source.patch, notices: [] }
  const { path, content } = source
  const settings = present({ settings: content.text })
  const kept = await tx.trustFirst({ owner, path, ...settings, origin: 'first_run', trustedAt: at })
  const file = join(path, SETTINGS_FILE.path)
  if (kept.isFirst) {
    const data = { path: file, settings: content.text === undefined ? 'defaults' : 'file' } as const
    return { patch: content.patch, notices: [{ type: 'policy.settings_trusted', data }] }
  }
  return { patch: patchOf(kept.folder), notices: ignoredNotices(file, kept.folder.settings, content.text) }
}

/** The event that reports that the run ignores a settings file, because other settings are in force. */
export function ignoredNotices(
  path: string,
  inForce: string | undefined,
  found: string | undefined,
): RunEvent[] {
  if (inForce === found) return []
  return [{ type: 'policy.settings_ignored', data: { path, reason: reasonOf(inForce, found) } }]
}

function reasonOf(inForce: string | undefined, found: string | undefined): SettingsIgnoredReason {
  if (inForce === undefined) return 'added'
  return found === undefined ? 'removed' : 'changed'
}

/** It was valid when it was kept; a newer release may know better. */
export const patchOf = ({ path, settings }: TrustedFolder): SandboxSettingsPatch =>
  settings === undefined
    ? {}
    : parseSettings(settings, `the settings in force for ${path} (agentweaver trust)`)
