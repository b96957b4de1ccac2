import { createHash } from 'node:crypto'
import { realpathSync } from 'node:fs'
import { homedir } from 'node:os'
import { join } from 'node:path'
import * as z from 'zod'
import { SETTINGS_FILE } from '../../contracts/policy.ts'
import { present } from '../../runtime/kit/present.ts'
import { configDirOf } from '../../runtime/state-folder/places.ts'
import { preparePrivateFolder } from '../../runtime/state-folder/prepare-folder.ts'
import { openPrivateFolder } from '../../runtime/state-folder/private-folder.ts'
import { replaceFile } from '../../runtime/state-folder/replace-file.ts'
import { openWorkspace } from '../../runtime/workspace/open-workspace.ts'
import { CliError, usageError } from '../cli-error.ts'
import { EXIT } from '../exit-status.ts'
import type { CliIo } from '../terminal/terminal.ts'

const Held = z.strictObject({ path: z.string(), settings: z.string().nullable() })

export interface UploadSettings {
  /** Sent with the run. */
  readonly text?: string
  /** For the person. */
  readonly note?: string
}

export interface SettingsRequest {
  readonly folder: string
  /** The person accepts the settings file as it is. */
  readonly accepts: boolean
}

/**
 * The settings for an uploaded folder. An agent can write the settings file of a folder, so the text of the first upload
 * counts, from a copy outside the folder. The person accepts a different file explicitly.
 */
export async function settingsFor(io: CliIo, { folder, accepts }: SettingsRequest): Promise<UploadSettings> {
  const configDir = configDirOf({ env: io.env, home: io.env['HOME'] || homedir() })
  const place = join(configDir, 'uploads')
  const path = realpathSync(folder)
  const name = `${createHash('sha256').update(path).digest('hex')}.json`
  const found = (await readSettings(folder)) ?? null
  const held = readHeld(place, name)
  if (held && held.settings !== found && !accepts)
    return { ...present({ text: held.settings ?? undefined }), note: otherFile(held.settings) }
  if (held?.settings !== found) {
    await preparePrivateFolder(place)
    await replaceFile(join(place, name), JSON.stringify({ path, settings: found }))
  }
  const isNews = (held?.settings ?? null) !== found
  return { ...present({ text: found ?? undefined }), ...(isNews && { note: IN_FORCE }) }
}

const IN_FORCE = `${SETTINGS_FILE.path} is in force for uploads of this folder. Later changes count only with --accept-settings.`

const otherFile = (held: string | null): string =>
  `${SETTINGS_FILE.path} differs from the one at your first upload of this folder. The earlier ${held === null ? 'defaults' : 'settings'} stay in force. To accept the file: --accept-settings`

function readHeld(place: string, name: string): z.infer<typeof Held> | undefined {
  using folder = openPrivateFolder(place)
  const text = folder?.readFile(name)
  if (text === undefined) return undefined
  try {
    return Held.parse(JSON.parse(text))
  } catch (cause) {
    // Without the copy, the file in the folder would count, which an agent may have written.
    throw new CliError(`The copy of the settings of this folder is damaged: ${join(place, name)}.`, {
      cause,
      status: EXIT.usage,
      hint: 'Read the settings file of the folder, delete the copy, and repeat the command: the file is then in force.',
    })
  }
}

/** Undefined if there is no file. A file that cannot be read is an error: its rules would be missing. */
async function readSettings(folder: string): Promise<string | undefined> {
  const workspace = await openWorkspace(folder)
  try {
    const { path, maxBytes } = SETTINGS_FILE
    const { result, payload } = await workspace.perform({ op: 'read', path, length: maxBytes + 1 })
    if (!result.ok && result.code === 'not_found') return undefined
    if (!result.ok) throw usageError(`The settings file of the folder cannot be read: ${result.message}`)
    if (payload.length > maxBytes) throw usageError(`${path} is larger than ${maxBytes} bytes.`)
    return new TextDecoder('utf-8', { fatal: true, ignoreBOM: true }).decode(payload)
  } catch (error) {
    if (error instanceof TypeError) throw usageError(`${SETTINGS_FILE.path} is not UTF-8.`)
    throw error
  } finally {
    workspace.close()
  }
}
