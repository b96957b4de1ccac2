import type { AdmissionSpace } from '../../space.ts'
import type { Attempt } from '../attempt.ts'
import { OLD } from '../writers.ts'

export type Try = (space: AdmissionSpace) => Attempt
/** What somebody might try, and the rule that stands there; where several do, whichever answers first. */
export type Attacks = Readonly<Record<string, readonly [rule: string | readonly string[], attempt: Try]>>

export const EXTENSIONS = 'extensions.agents.x-k8s.io/v1beta1'

export const pod =
  (subresource?: string) =>
  ({ namespace }: AdmissionSpace) => ({
    apiVersion: 'v1',
    plural: 'pods',
    namespace,
    name: OLD.pod,
    subresource,
  })
