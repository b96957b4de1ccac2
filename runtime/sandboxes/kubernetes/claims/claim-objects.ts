import * as z from 'zod'
import { Conditions, Metadata } from '../client/kube-object.ts'

/** Schemas of the controller's objects and the pod, limited to the fields that we read. */
export const ClaimObject = z.object({
  metadata: Metadata,
  spec: z.object({
    warmPoolRef: z.object({ name: z.string() }),
    env: z.array(z.unknown()).optional(),
    volumeClaimTemplates: z.array(z.unknown()).optional(),
    additionalPodMetadata: z.record(z.string(), z.unknown()).optional(),
    lifecycle: z
      .object({ shutdownTime: z.string().optional(), shutdownPolicy: z.string().optional() })
      .optional(),
  }),
  status: z
    .object({
      conditions: Conditions,
      sandbox: z.object({ name: z.string().optional(), podIPs: z.array(z.string()).optional() }).optional(),
    })
    .optional(),
})
export type ClaimObject = z.infer<typeof ClaimObject>

export const SandboxObject = z.object({
  metadata: Metadata,
  status: z.object({ conditions: Conditions, podIPs: z.array(z.string()).optional() }).optional(),
})
export type SandboxObject = z.infer<typeof SandboxObject>

export const PodObject = z.object({
  metadata: Metadata,
  spec: z.object({
    runtimeClassName: z.string().optional(),
    serviceAccountName: z.string().optional(),
    hostNetwork: z.boolean().optional(),
  }),
  status: z
    .object({
      phase: z.string().optional(),
      podIP: z.string().optional(),
      podIPs: z.array(z.object({ ip: z.string() })).optional(),
    })
    .optional(),
})
export type PodObject = z.infer<typeof PodObject>

/** Labels and annotations of the controller. */
export const LAUNCH_TYPE_LABEL = 'agents.x-k8s.io/launch-type'
export const POD_NAME_ANNOTATION = 'agents.x-k8s.io/pod-name'
/** On a claim: the Sandbox that the controller has chosen, written before the Sandbox is adopted. */
export const ASSIGNED_ANNOTATION = 'agents.x-k8s.io/sandbox-name'
