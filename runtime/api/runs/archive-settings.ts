import { Readable } from 'node:stream'
import { extract } from 'tar-stream'
import { SandboxError } from '../../kit/errors.ts'
import { SETTINGS_FILE } from './repository-settings.ts'

const MAX_BYTES = 65_536

/** The settings file of an uploaded workspace, read from the archive itself: that is the run's base. */
export async function settingsOfArchive(chunks: AsyncIterable<Uint8Array>): Promise<string | undefined> {
  const entries = Readable.from(chunks).pipe(extract())
  let found: string | undefined
  for await (const entry of entries) {
    if (entry.header.name.replace(/^\.\//, '') !== SETTINGS_FILE) {
      entry.resume()
      continue
    }
    const pieces: Uint8Array[] = []
    let bytes = 0
    for await (const piece of entry) {
      bytes += (piece as Uint8Array).length
      if (bytes > MAX_BYTES)
        throw new SandboxError('workspace_invalid', `${SETTINGS_FILE} is larger than ${MAX_BYTES} bytes`)
      pieces.push(piece as Uint8Array)
    }
    found = Buffer.concat(pieces).toString('utf8')
  }
  return found
}
