import { policyFaults } from '../../reachability/compile-policies.ts'
import { titleOf } from '../../reachability/policy-context.ts'
import type { Check } from './checked-tree.ts'

/**
 * Finds policies that the API server accepts but Cilium's agent rejects. The agent only logs such a
 * rejection.
 */
export const enforceablePolicies: Check = ({ objects }) =>
  objects.flatMap(({ path, object }) =>
    policyFaults([object]).map((fault) => ({
      path,
      message: `${titleOf(object)}, ${fault.path}: ${fault.reason}`,
      open: 'charts-src/network/',
    })),
  )
