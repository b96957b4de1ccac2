import { openSync } from 'node:fs'
import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import type { CommandRights } from '../executor.ts'
import { seccompProgram } from './filter.ts'

/**
 * Returns a function that opens the filter for a command with these rights. The launcher receives the
 * descriptor.
 */
export type OpenFilter = (rights: CommandRights) => () => number

/** Writes the command filters for this machine. Undefined if the processor has no filter. */
export async function writeFilters(folder: string): Promise<OpenFilter | undefined> {
  const [strict, withSetGroupId] = [false, true].map((permitsSetGroupId) =>
    seccompProgram(process.arch, { permitsSetGroupId }),
  )
  if (!strict || !withSetGroupId) return undefined
  const files = { strict: join(folder, 'seccomp.bpf'), withSetGroupId: join(folder, 'seccomp-set-gid.bpf') }
  await Promise.all([writeFile(files.strict, strict), writeFile(files.withSetGroupId, withSetGroupId)])
  return ({ permitsSetGroupId = false }) =>
    () =>
      openSync(permitsSetGroupId ? files.withSetGroupId : files.strict, 'r')
}

export const NO_FILTER_FOR_PROCESSOR = 'there is no system call filter for this processor'
