import type { z } from 'zod'
import { SandboxError } from '../kit/errors.ts'
import type { SessionFiles } from './agent.ts'

const META_FILE = 'session.json'

/** Encodes the agent's metadata as a session file. */
export const encodeMeta = (meta: Record<string, unknown>): [string, Uint8Array] => [
  META_FILE,
  new TextEncoder().encode(JSON.stringify(meta)),
]

/** Decodes the metadata. Throws if it is damaged or belongs to another kind of agent. */
export function decodeMeta<S extends z.ZodType>(schema: S, files: SessionFiles): z.infer<S> {
  const bytes = files.get(META_FILE)
  if (bytes === undefined) throw unusable(`it has no ${META_FILE}`)
  try {
    return schema.parse(JSON.parse(new TextDecoder().decode(bytes)))
  } catch (error) {
    throw unusable(`its ${META_FILE} does not belong to this kind of agent`, error)
  }
}

const unusable = (why: string, cause?: unknown) =>
  new SandboxError('configure_failed', `The session cannot be restored: ${why}`, { cause })
