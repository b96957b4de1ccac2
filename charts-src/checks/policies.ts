import { policyFaults } from '../../reachability/compile-policies.ts'
import { titleOf } from '../../reachability/policy-context.ts'
import type { Check } from './checked-tree.ts'

/** Policies that the API server takes and the agent refuses, which then are only a line in its log. */
export const enforceablePolicies: Check = ({ objects }) =>
  objects.flatMap(({ path, object }) =>
    policyFaults([object]).map((fault) => ({
      path,
      message: `${titleOf(object)}, ${fault.path}: ${fault.reason}`,
      open: 'charts-src/network/',
    })),
  )
