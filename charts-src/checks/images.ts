import type { Check } from './checked-tree.ts'
import { environmentFile } from './checked-tree.ts'
import { textAt } from './read-fields.ts'
import { containersOf, podsOf } from './tree-pods.ts'

const BY_DIGEST = /^[^@\s]+@sha256:[0-9a-f]{64}$/
const TAG = /:[^/:@]+@/

/** Every image must come from the environment's registry and be pinned by digest. */
export const images: Check = (tree) => {
  const { host } = tree.environment.infra.registry
  return podsOf(tree.objects).flatMap(({ path, spec }) =>
    containersOf(spec).flatMap(({ name, value }) => {
      const image = textAt(value, 'image') ?? ''
      const isPinned = BY_DIGEST.test(image) && !TAG.test(image)
      const faults = [
        ...(isPinned ? [] : [`image of ${name} is not pinned by digest alone: ${image || 'none'}`]),
        ...(image.startsWith(`${host}/`) ? [] : [`image of ${name} is not from ${host}: ${image || 'none'}`]),
      ]
      return faults.map((message) => ({ path, message, open: environmentFile(tree) }))
    }),
  )
}
