import { setTimeout as wait } from 'node:timers/promises'
import type { Placed } from '../checks/checked-tree.ts'
import type { Kubectl } from './kubectl.ts'

/** Field manager of the server-side apply. */
const FIELD_MANAGER = 'agentweaver-gitops'
/**
 * The API server sees new policy parameters shortly after they are written, and rejects requests until then.
 */
const NO_PARAMETERS = 'no params found for policy binding'
const TRIES = 5
const PAUSE_MS = 2000
/** Output of kubectl that is not an error. */
const REMARK = /^(?:$|[IW]\d{4} |Warning:)/

const applyCommand = (folder: string) => [
  'apply',
  `--kustomize=${folder}`,
  '--server-side',
  `--field-manager=${FIELD_MANAGER}`,
  '--validate=strict',
]

/** Applies a tree and returns kubectl's line for each object. */
export async function serverApply(kubectl: Kubectl, folder: string): Promise<string> {
  for (let attempt = 1; ; attempt++) {
    try {
      return await kubectl(...applyCommand(folder))
    } catch (error) {
      const isEarly = error instanceof Error && error.message.includes(NO_PARAMETERS)
      if (!isEarly || attempt === TRIES) throw error
      await wait(PAUSE_MS)
    }
  }
}

/**
 * Returns the rejections of a server-side dry run. Objects in a namespace that the tree creates, or under
 * policy parameters that it brings, cannot be checked before the real apply.
 */
export async function serverRefusals(
  kubectl: Kubectl,
  folder: string,
  objects: readonly Placed[],
): Promise<string[]> {
  const namespaces = objects
    .filter(({ object }) => object.kind === 'Namespace')
    .map(({ object }) => object.metadata.name)
  const notYet = [...namespaces.map((name) => `(NotFound): namespaces "${name}" not found`), NO_PARAMETERS]
  try {
    await kubectl(...applyCommand(folder), '--dry-run=server')
    return []
  } catch (error) {
    const lines = error instanceof Error ? error.message.split('\n') : [String(error)]
    return lines.filter((line) => !REMARK.test(line) && !notYet.some((reason) => line.includes(reason)))
  }
}
