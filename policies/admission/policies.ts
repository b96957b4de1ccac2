import { ACCESS_POLICIES } from './access.ts'
import { CLAIM_POLICIES } from './claims.ts'
import { POD_POLICIES } from './pods/policies.ts'
import type { AdmissionPolicy } from './rule.ts'
import { SURROUNDING_POLICIES } from './surroundings.ts'
import { WRITER_POLICIES } from './writers.ts'

/** All admission policies for the namespaces of a slice. */
export const ADMISSION_POLICIES: readonly AdmissionPolicy[] = [
  ...POD_POLICIES,
  ...CLAIM_POLICIES,
  ...WRITER_POLICIES,
  ...ACCESS_POLICIES,
  ...SURROUNDING_POLICIES,
]
