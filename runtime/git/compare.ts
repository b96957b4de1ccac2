import type { ByteName } from '../workspace/git/folder-names.ts'
import type { Snapshot, SnapshotFile } from './snapshot.ts'

export interface Change {
  readonly path: ByteName
  readonly before: SnapshotFile | undefined
  readonly after: SnapshotFile | undefined
}

/** Compares two snapshots of one folder by content. Changes are ordered by path. */
export function changesBetween(before: Snapshot, after: Snapshot): Change[] {
  const paths = new Set([...before.files.keys(), ...after.files.keys()])
  return [...paths].sort().flatMap((path) => {
    const change = { path, before: before.files.get(path), after: after.files.get(path) }
    const isSame = change.before?.id === change.after?.id && change.before?.mode === change.after?.mode
    return isSame ? [] : [change]
  })
}

/** Ignored files that were written, created or deleted. Their content is not stored. */
export function ignoredChangesBetween(before: Snapshot, after: Snapshot): ByteName[] {
  const paths = new Set([...before.ignored.keys(), ...after.ignored.keys()])
  return [...paths].filter((path) => before.ignored.get(path) !== after.ignored.get(path)).sort()
}
