import { Readable } from 'node:stream'
import { type Extract, extract } from 'tar-stream'
import { SETTINGS_FILE } from '../../../../contracts/policy.ts'
import { messageOf, SandboxError } from '../../../kit/errors.ts'
import { FileFault } from '../../../workspace/file-fault.ts'
import { parseMemberName } from '../../../workspace/parse-path.ts'
import { type SettingsContent, toSettings } from './settings-file.ts'

/**
 * The settings file that an uploaded workspace has, read from the archive itself. `workspace_invalid` for an upload that is
 * not a tar archive, or is cut.
 */
export async function settingsOfArchive(chunks: AsyncIterable<Uint8Array>): Promise<SettingsContent> {
  const archive = Readable.from(chunks)
  const entries = archive.pipe(extract())
  let readError: Error | undefined
  archive.on('error', (error) => {
    readError = error
    entries.destroy(error)
  })
  try {
    return toSettings(await findSettings(entries), SETTINGS_FILE.path)
  } catch (error) {
    if (error instanceof SandboxError || error === readError) throw error
    throw invalid(`the upload cannot be read as a tar archive: ${messageOf(error)}`, error)
  }
}

const invalid = (message: string, cause?: unknown) =>
  new SandboxError('workspace_invalid', message, { cause })

async function findSettings(entries: Extract): Promise<Uint8Array | undefined> {
  let found: Uint8Array | undefined
  for await (const entry of entries) {
    if (!isSettingsFile(entry.header.name)) {
      entry.resume()
      continue
    }
    if (entry.header.type !== 'file')
      throw invalid(`${SETTINGS_FILE.path} of the archive is not a regular file`)
    found = await readEntry(entry as AsyncIterable<Uint8Array>)
  }
  return found
}

/** A name that is invalid in an archive ends the run later, when the archive is unpacked. */
function isSettingsFile(name: string): boolean {
  try {
    return parseMemberName(name).text === SETTINGS_FILE.path
  } catch (error) {
    if (error instanceof FileFault) return false
    throw error
  }
}

/** At most one byte more than such a file may have. */
async function readEntry(entry: AsyncIterable<Uint8Array>): Promise<Uint8Array> {
  const pieces: Uint8Array[] = []
  let bytes = 0
  for await (const piece of entry) {
    if (bytes <= SETTINGS_FILE.maxBytes) pieces.push(piece)
    bytes += piece.length
  }
  return Buffer.concat(pieces).subarray(0, SETTINGS_FILE.maxBytes + 1)
}
