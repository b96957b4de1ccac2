import { createHash } from 'node:crypto'
import { constants, openSync, readlinkSync } from 'node:fs'
import { join } from 'node:path'
import { type SandboxSettingsPatch, SETTINGS_FILE } from '../../../../contracts/policy.ts'
import { parseRepositorySettings } from '../../../../policies/agent/settings.ts'
import { SandboxError } from '../../../kit/errors.ts'
import { createWalkEngine } from '../../../workspace/engines/walk-engine.ts'
import { FileFault, toFileError } from '../../../workspace/file-fault.ts'
import { handlePath, O_PATH, readUpTo, regularFile, withHandleAsync } from '../../../workspace/handles.ts'
import { READ_FLAGS } from '../../../workspace/operations/read.ts'
import { parsePath } from '../../../workspace/parse-path.ts'

/** A settings file. It is read only once, so that the same text is compared, stored and applied. */
export interface SettingsContent {
  /** Absent if there is no file. */
  readonly text?: string
  readonly patch: SandboxSettingsPatch
}

const NO_FILE: SettingsContent = { patch: {} }

/** The bytes of a settings file as settings; `file` names it in the fault that refuses them, with line and reason. */
export function toSettings(bytes: Uint8Array | undefined, file: string): SettingsContent {
  if (bytes === undefined) return NO_FILE
  if (bytes.length > SETTINGS_FILE.maxBytes)
    throw invalid(`${file} is larger than ${SETTINGS_FILE.maxBytes} bytes`)
  const text = decode(bytes)
  if (text === undefined) throw invalid(`${file}, line ${firstBadLine(bytes)}: is not UTF-8`)
  return { text, patch: parseSettings(text, file) }
}

/** The patch that a text of settings means. */
export function parseSettings(text: string, file: string): SandboxSettingsPatch {
  const parsed = parseRepositorySettings(text)
  if (parsed.ok) return parsed.patch
  throw invalid(`${file}, line ${parsed.line}: ${parsed.reason}`)
}

/** By this a person who was shown a text says which one it was; null stands for no file. */
export const digestOf = (text: string | undefined): string | null =>
  text === undefined ? null : createHash('sha256').update(text, 'utf8').digest('hex')

const invalid = (message: string, cause?: unknown) =>
  new SandboxError('workspace_invalid', message, { cause })

function decode(bytes: Uint8Array): string | undefined {
  try {
    return new TextDecoder('utf-8', { fatal: true, ignoreBOM: true }).decode(bytes)
  } catch {
    return undefined
  }
}

/** No character of UTF-8 has a line feed among its bytes, so each line can be decoded by itself. */
function firstBadLine(bytes: Uint8Array): number {
  let line = 1
  let start = 0
  for (let end = bytes.indexOf(10); end >= 0 && decode(bytes.subarray(start, end)) !== undefined; line++) {
    start = end + 1
    end = bytes.indexOf(10, start)
  }
  return line
}

/**
 * Reads the settings file of a folder, whose real path this is. An agent may have made it: no link is followed, nothing
 * but a regular file is read, and nothing is waited for. A file that cannot be read is a fault, never an absent one.
 */
export async function readSettingsFile(folder: string): Promise<SettingsContent> {
  const file = join(folder, SETTINGS_FILE.path)
  try {
    const root = openSync(folder, O_PATH | constants.O_DIRECTORY | constants.O_NOFOLLOW)
    return toSettings(await withHandleAsync(root, (fd) => readBelow({ fd, path: folder }, file)), file)
  } catch (error) {
    if (error instanceof SandboxError) throw error
    throw invalid(`${toFileError(error, file).message}; the settings file must be readable or absent`, error)
  }
}

async function readBelow(root: { fd: number; path: string }, file: string): Promise<Uint8Array | undefined> {
  if (readlinkSync(handlePath(root.fd)) !== root.path)
    throw new FileFault('path_outside', `${root.path} was moved while it was read`)
  const opened = openFile(root)
  if (opened === undefined) return undefined
  return withHandleAsync(opened, async (fd) => {
    regularFile(fd, file)
    return readUpTo(fd, 0, SETTINGS_FILE.maxBytes + 1)
  })
}

function openFile(root: { fd: number; path: string }): number | undefined {
  try {
    return createWalkEngine(root).open(parsePath(SETTINGS_FILE.path), READ_FLAGS)
  } catch (error) {
    if (toFileError(error, SETTINGS_FILE.path).code === 'not_found') return undefined
    throw error
  }
}
