import { createHash } from 'node:crypto'
import { existsSync, mkdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { deflate, deflateSync } from 'node:zlib'
import type { ObjectFormat } from './clean-config.ts'

/** Larger content is compressed on another thread. */
const LARGE_BYTES = 262_144
const LEVEL = { level: 1 }
const deflateLater = promisify(deflate)

const headerOf = (size: number) => Buffer.from(`blob ${size}\0`)

/** Returns git's object id for content as it is on disk, without line-end conversion or filters. */
export function blobId(format: ObjectFormat, content: Uint8Array): string {
  return createHash(format).update(headerOf(content.length)).update(content).digest('hex')
}

/** Computes the object id of content that is read in pieces. */
export function openBlobId(format: ObjectFormat, size: number) {
  const hash = createHash(format).update(headerOf(size))
  return { update: (piece: Uint8Array) => void hash.update(piece), digest: () => hash.digest('hex') }
}

/** Stores content as a loose object, unless the object exists. */
export async function storeBlob(objects: string, id: string, content: Uint8Array): Promise<void> {
  const folder = join(objects, id.slice(0, 2))
  const file = join(folder, id.slice(2))
  if (existsSync(file)) return
  const whole = Buffer.concat([headerOf(content.length), content])
  const packed = whole.length > LARGE_BYTES ? await deflateLater(whole, LEVEL) : deflateSync(whole, LEVEL)
  mkdirSync(folder, { recursive: true, mode: 0o700 })
  writeFileSync(file, packed, { mode: 0o400 })
}
