import type { AdmissionSpace } from '../../space.ts'
import type { Attempt } from '../attempt.ts'
import { OLD } from '../writers.ts'

export type Try = (space: AdmissionSpace) => Attempt
/** An attack, and the rule that rejects it. If several rules do, the one that the API server reports first. */
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
