import { type Header, pack } from 'tar-stream'

export const ENOUGH = { maxEntries: 1000, maxBytes: 100_000_000 }

export type Member = Partial<Omit<Header, 'name'>> & { readonly name: string; readonly content?: string }

/** Builds a tar archive with these members, valid or not. */
export async function anArchive(members: readonly Member[]): Promise<Buffer> {
  const archive = pack()
  for (const { content, ...header } of members) {
    if (content === undefined) archive.entry(header)
    else archive.entry(header, content)
  }
  archive.finalize()
  const parts: Uint8Array[] = []
  for await (const part of archive) parts.push(part as Uint8Array)
  return Buffer.concat(parts)
}
