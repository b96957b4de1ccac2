import { createHash } from 'node:crypto'
import { isAbsolute, join } from 'node:path'
import type { EnvSource } from '../kit/parse-env.ts'

/** Linux allows 107 bytes; the margin is for programs that count the terminating zero or add a suffix. */
const MAX_PATH_BYTES = 100
const NAME = 'service.sock'

export type SocketPlace = {
  /** The folder, which belongs to this user alone. */
  readonly folder: string
  readonly name: string
  readonly path: string
}

const placeAt = (folder: string, name: string): SocketPlace => ({ folder, name, path: join(folder, name) })
const fits = ({ path }: SocketPlace): boolean => Buffer.byteLength(path) <= MAX_PATH_BYTES

/**
 * Where the service of a state folder listens for this user's command line: in that folder, or in a private folder for
 * runtime files where the path would be too long for a socket. Service and command line compute the same place.
 */
export function socketPlaceOf(stateDir: string, env: EnvSource): SocketPlace {
  const own = placeAt(stateDir, NAME)
  if (fits(own)) return own
  const name = `${createHash('sha256').update(stateDir).digest('hex').slice(0, 16)}.sock`
  const runtimeDir = env['XDG_RUNTIME_DIR']
  const atRuntime = isAbsolute(runtimeDir ?? '') ? placeAt(join(runtimeDir ?? '', 'agentweaver'), name) : own
  return fits(atRuntime) ? atRuntime : placeAt(`/tmp/agentweaver-${process.getuid?.() ?? 0}`, name)
}
