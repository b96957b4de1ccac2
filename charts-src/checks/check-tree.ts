import type { Check, CheckedTree, Finding } from './checked-tree.ts'
import { duplicates, nameForms } from './identity.ts'
import { images } from './images.ts'
import { namespaces } from './namespaces.ts'
import { enforceablePolicies } from './policies.ts'
import { quotaCoversPools } from './quota.ts'
import { references } from './references.ts'
import { rights } from './rights.ts'
import { secrets } from './secrets.ts'
import { selectors } from './selectors.ts'
import { variables } from './variables.ts'
import { claimVersion } from './versions.ts'
import { wayOut } from './way-out.ts'

/**
 * The checks that need only the tree. Custom resources are checked separately, because that needs the CRDs.
 */
export const CHECKS: Readonly<Record<string, Check>> = {
  duplicates,
  nameForms,
  namespaces,
  images,
  secrets,
  claimVersion,
  variables,
  quotaCoversPools,
  selectors,
  references,
  rights,
  enforceablePolicies,
  wayOut,
}

export const checkTree = (tree: CheckedTree): Finding[] =>
  Object.values(CHECKS).flatMap((check) => check(tree))
