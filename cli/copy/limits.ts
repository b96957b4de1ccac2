import { FILE_LIMITS } from '../../contracts/limits.ts'
import { usageError } from '../cli-error.ts'

/** Limits of one copy. A larger result is better fetched as commits, or copied as an archive that a command makes. */
export const COPY_LIMITS = { entries: 10_000, bytes: FILE_LIMITS.maxArchiveBytes, depth: 64 } as const

const TOO_MUCH =
  'Copy a part of it, or pack it into one file first: agentweaver exec RUN -- tar czf out.tgz DIR'

export function requireFits(found: {
  readonly entries: number
  readonly bytes: number
  readonly depth: number
}): void {
  for (const [name, limit] of Object.entries(COPY_LIMITS)) {
    const value = found[name as keyof typeof COPY_LIMITS]
    if (value > limit)
      throw usageError(
        `The folder is too large to copy: more than ${limit.toLocaleString('en')} ${UNITS[name]}.`,
        TOO_MUCH,
      )
  }
}

const UNITS: Readonly<Record<string, string>> = {
  entries: 'files and folders',
  bytes: 'bytes',
  depth: 'levels of folders',
}
