import { execFileSync } from 'node:child_process'
import { mkdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import type { RunEnvelope, SettingsIgnoredReason } from '../../contracts/events.ts'
import { SETTINGS_FILE } from '../../contracts/policy.ts'
import type { Caller } from '../../runtime/api/runs/service.ts'
import { alice, aRun, useService } from './service-rig.ts'

/** `deploy` is a command that requires an approval only with these settings. */
export const STRICT = 'destructive_command_patterns: [deploy]\n'
export const WEAK = 'redact_pii: true\n'

export const fileOf = (folder: string): string => join(folder, SETTINGS_FILE.path)

export function writeSettings(folder: string, text: string): void {
  mkdirSync(join(folder, '.agentweaver'), { recursive: true })
  writeFileSync(fileOf(folder), text)
}

export function git(folder: string, ...args: string[]): void {
  execFileSync('git', ['-c', 'user.name=a', '-c', 'user.email=a@b.example', ...args], { cwd: folder })
}

/** The policy events of a run. */
export const noticesOf = (events: readonly RunEnvelope[]) =>
  events.flatMap(({ event }) => (event.type.startsWith('policy.') ? [event] : []))

export const trusted = (folder: string, settings: 'file' | 'defaults') => ({
  type: 'policy.settings_trusted',
  data: { path: fileOf(folder), settings },
})
export const ignored = (folder: string, reason: SettingsIgnoredReason) => ({
  type: 'policy.settings_ignored',
  data: { path: fileOf(folder), reason },
})

/** A service, and folders whose settings it stores. */
export function useTrust() {
  const use = useService()
  return {
    use,

    /** A repository with these settings in its only commit, or with none. */
    aRepository(settings?: string): string {
      const path = use().aWorkspace()
      mkdirSync(join(path, '.agentweaver'))
      if (settings !== undefined) writeSettings(path, settings)
      git(path, 'init', '-q')
      git(path, 'add', '-A')
      git(path, 'commit', '-q', '--allow-empty', '-m', 'first')
      return path
    },

    /** The settings and the first events of a run that is cancelled at once. */
    async startedIn(path: string, caller: Caller = alice) {
      const { service, store } = use()
      // A folder inside a repository cannot be copied.
      const workspace = { kind: 'path', path, mode: 'in-place' } as const
      const { id } = await service.startRun(caller, aRun(path, [], { workspace }))
      await service.cancel(caller, id)
      const settings = (await store.readRun(id))?.settings
      return { settings, events: await service.readEvents(caller, id, { after: 0, limit: 5 }) }
    },

    /** Trusts the folder's current settings, as the trust command does. */
    async trust(path: string, caller: Caller = alice) {
      const { service } = use()
      const { file } = await service.compareSettings(caller, { path })
      return service.trustFolder(caller, { path, digest: file.digest })
    },
  }
}
