import { readFile } from 'node:fs/promises'
import * as z from 'zod'
import { EgressControlMessage } from '../../../contracts/egress-control.ts'

const Keys = z.object({ keys: EgressControlMessage.shape.keys })

/** The public keys that verify tokens of sandboxes. The file is read again each time, because keys rotate. */
export async function readEgressKeys(jwksFile: string) {
  const { keys } = Keys.parse(JSON.parse(await readFile(jwksFile, 'utf8')))
  return keys
}
