import { setTimeout as wait } from 'node:timers/promises'
import type { Placed } from '../checks/checked-tree.ts'
import type { Kubectl } from './kubectl.ts'

/** The name under which fields of ours are owned on the server. */
const FIELD_MANAGER = 'agentweaver-gitops'
/** The API server sees the parameters of policies a moment after they were written, and until then refuses. */
const NO_PARAMETERS = 'no params found for policy binding'
const TRIES = 5
const PAUSE_MS = 2000
/** What kubectl says beside its errors. */
const REMARK = /^(?:$|[IW]\d{4} |Warning:)/

const applyCommand = (folder: string) => [
  'apply',
  `--kustomize=${folder}`,
  '--server-side',
  `--field-manager=${FIELD_MANAGER}`,
  '--validate=strict',
]

/** Applies a tree and answers what kubectl says of each object. */
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
 * What the server refuses of the tree, asked for without applying anything. What would stand in a namespace that this
 * tree is about to make, or under parameters that it brings, cannot be asked for yet; the real apply answers that.
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
