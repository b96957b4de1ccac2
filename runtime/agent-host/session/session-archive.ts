import { buffer } from 'node:stream/consumers'
import { extract, pack } from 'tar-stream'
import { CONFIGURE_LIMITS } from '../../../contracts/limits.ts'
import type { SessionFiles } from '../../agents/agent.ts'
import { SandboxError } from '../../kit/errors.ts'

/** Packs an agent's session as a tar archive. Deterministic: the same files give the same bytes. */
export async function packSession(files: SessionFiles): Promise<Uint8Array> {
  const archive = pack()
  const bytes = buffer(archive)
  for (const [name, content] of [...files].sort(([a], [b]) => (a < b ? -1 : 1))) {
    archive.entry({ name, mode: 0o600, mtime: new Date(0) }, Buffer.from(content))
  }
  archive.finalize()
  return bytes
}

/** Unpacks a session archive into memory. Names are only map keys, never paths on disk. */
export async function unpackSession(archive: Uint8Array): Promise<SessionFiles> {
  const files = new Map<string, Uint8Array>()
  const entries = extract()
  entries.end(Buffer.from(archive))
  let bytes = 0
  for await (const entry of entries) {
    if (entry.header.type !== 'file')
      throw new SandboxError(
        'invalid_request',
        `the session contains an entry of type ${entry.header.type}; only files are allowed`,
      )
    const content = await buffer(entry)
    bytes += content.length
    if (bytes > CONFIGURE_LIMITS.maxSessionBytes)
      throw new SandboxError('payload_too_large', 'the session is too large')
    files.set(entry.header.name, content)
  }
  return files
}

/**
 * Redacts known secrets from a session, because a model may repeat its input. The files are treated as latin1, so that
 * binary files stay intact.
 */
export function withoutSecrets(files: SessionFiles, redact: (text: string) => string): SessionFiles {
  const clean = (bytes: Uint8Array) => Buffer.from(redact(Buffer.from(bytes).toString('latin1')), 'latin1')
  return new Map([...files].map(([name, bytes]) => [name, clean(bytes)]))
}
