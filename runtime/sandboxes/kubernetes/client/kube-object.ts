import * as z from 'zod'

export const OwnerReference = z.object({
  apiVersion: z.string(),
  kind: z.string(),
  name: z.string(),
  uid: z.string(),
  controller: z.boolean().optional(),
})
export type OwnerReference = z.infer<typeof OwnerReference>

export const Metadata = z.object({
  name: z.string().min(1),
  namespace: z.string().min(1),
  uid: z.string().min(1),
  resourceVersion: z.string().min(1),
  creationTimestamp: z.string().optional(),
  deletionTimestamp: z.string().optional(),
  labels: z.record(z.string(), z.string()).optional(),
  annotations: z.record(z.string(), z.string()).optional(),
  ownerReferences: z.array(OwnerReference).optional(),
})

/** Common fields. Each kind's schema adds the fields that we read and ignores all others. */
export type KubeObject = { readonly metadata: z.infer<typeof Metadata> }

const Condition = z.object({
  type: z.string(),
  status: z.string(),
  reason: z.string().optional(),
  message: z.string().optional(),
  lastTransitionTime: z.string().optional(),
})
export type Condition = z.infer<typeof Condition>
export const Conditions = z.array(Condition).optional()

export const conditionOf = (
  conditions: readonly Condition[] | undefined,
  type: string,
): Condition | undefined => conditions?.find((condition) => condition.type === type)

/** The controlling owner; undefined if no owner or more than one is marked as controller. */
export function controllerOf({ metadata }: KubeObject): OwnerReference | undefined {
  const [only, second] = (metadata.ownerReferences ?? []).filter(({ controller }) => controller === true)
  return second ? undefined : only
}
