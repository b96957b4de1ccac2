import { realpath } from 'node:fs/promises'
import { join } from 'node:path'
import { type SandboxSettings, SETTINGS_FILE } from '../../../../contracts/policy.ts'
import type { SettingsComparison } from '../../../../contracts/trusted-folders.ts'
import { SandboxError } from '../../../kit/errors.ts'
import { present } from '../../../kit/present.ts'
import type { TrustedFolder } from '../../../store/service-rows.ts'
import type { RunDeps } from '../deps.ts'
import type { RunService } from '../service.ts'
import { notGranted, type SandboxPolicy, settingsOfRun } from './sandbox-policy.ts'
import { digestOf, readSettingsFile, type SettingsContent } from './settings-file.ts'
import { patchOf } from './settings-in-force.ts'
import { admitWorkspace } from './workspace-admission.ts'

type TrustedFolders = Pick<
  RunService,
  'compareSettings' | 'trustFolder' | 'forgetFolder' | 'listTrustedFolders'
>
type Deps = Pick<RunDeps, 'store' | 'workspaces' | 'clock' | 'log'>

/**
 * The settings in force for each folder. Every owner has separate records, so no one decides for the runs of others.
 */
export function createTrustedFolders(deps: Deps, policy: SandboxPolicy): TrustedFolders {
  const { store, workspaces, clock, log } = deps

  const compare = async (
    owner: string,
    content: SettingsContent,
    { path, kept }: Pick<Compared, 'path' | 'kept'>,
  ) => comparisonOf(await policy.of({ owner }), { path, content, kept })

  return {
    async compareSettings({ owner }, { path }) {
      const folder = await admitWorkspace(path, workspaces)
      const kept = await store.readTrustedFolder(owner, folder)
      return compare(owner, await readSettingsFile(folder), { path: folder, kept })
    },

    async trustFolder({ owner }, { path, digest }) {
      const folder = await admitWorkspace(path, workspaces)
      const content = await readSettingsFile(folder)
      if (digestOf(content.text) !== digest) {
        const file = join(folder, SETTINGS_FILE.path)
        throw new SandboxError('conflict', `${file} is not what was compared any more: compare it again`)
      }
      const kept = {
        ...present({ settings: content.text }),
        owner,
        path: folder,
        origin: 'trust',
        trustedAt: clock().toISOString(),
      } as const
      await store.writeTrustedFolder(kept)
      log.info('settings were trusted', { owner, path: folder, digest })
      return compare(owner, content, { path: folder, kept })
    },

    /** The spelling of the list counts first: the folder may be gone, or be another one. */
    async forgetFolder({ owner }, { path }) {
      const isForgotten = async (folder: string) => store.deleteTrustedFolder(owner, folder)
      if (await isForgotten(path)) return
      const real = await realpath(path).catch(() => path)
      if (real !== path && (await isForgotten(real))) return
      throw new SandboxError('not_found', `no settings are in force for ${path}`)
    },

    async listTrustedFolders({ owner }, { limit, after }) {
      const page = await store.listTrustedFolders({ owner, limit, ...present({ after }) })
      const items = page.items.map(({ path, hasFile, origin, trustedAt }) => ({
        path,
        settings: hasFile ? ('file' as const) : ('defaults' as const),
        origin,
        trustedAt,
      }))
      return { items, ...present({ next: page.next }) }
    },
  }
}

type Compared = {
  readonly path: string
  readonly content: SettingsContent
  readonly kept: TrustedFolder | undefined
}

function comparisonOf(base: SandboxSettings, { path, content, kept }: Compared): SettingsComparison {
  return {
    path,
    isSame: kept !== undefined && kept.settings === content.text,
    ...(kept && { inForce: inForceOf(base, kept) }),
    file: {
      ...present({ text: content.text }),
      digest: digestOf(content.text),
      settings: settingsOfRun(base, content.patch),
      notGranted: notGranted(base, content.patch),
    },
  }
}

/** A copy that this release does not take any more has no meaning to show; it is replaced by trusting the file. */
function inForceOf(base: SandboxSettings, kept: TrustedFolder): NonNullable<SettingsComparison['inForce']> {
  const { settings: text, origin, trustedAt } = kept
  const shown = { ...present({ text }), origin, trustedAt }
  try {
    return { ...shown, settings: settingsOfRun(base, patchOf(kept)) }
  } catch (error) {
    if (error instanceof SandboxError) return shown
    throw error
  }
}
