import { createHash, hkdfSync } from 'node:crypto'

export const KEY_BYTES = 32

/** HKDF-SHA256 with `info` = `agentweaver/<use>/v1` and the inputs, each prefixed with its length. */
export function deriveKey(root: Uint8Array, use: string, ...inputs: readonly string[]): Uint8Array {
  const prefixed = inputs.map((input) => {
    const bytes = Buffer.from(input, 'utf8')
    const length = Buffer.alloc(4)
    length.writeUInt32BE(bytes.length)
    return Buffer.concat([length, bytes])
  })
  const info = Buffer.concat([Buffer.from(`agentweaver/${use}/v1`), ...prefixed])
  return new Uint8Array(hkdfSync('sha256', root, new Uint8Array(0), info, KEY_BYTES))
}

/** A short id of a key that reveals nothing about its value. */
export const keyFingerprint = (bytes: Uint8Array): string =>
  createHash('sha256').update('agentweaver/key-id/v1').update(bytes).digest('hex').slice(0, 16)
