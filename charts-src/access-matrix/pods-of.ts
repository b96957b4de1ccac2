import * as z from 'zod'
import type { PodFacts } from '../../reachability/model.ts'
import type { KubeObject } from '../kube-object.ts'

const Container = z.object({
  ports: z
    .array(
      z.object({
        name: z.string().optional(),
        containerPort: z.int(),
        protocol: z.enum(['TCP', 'UDP', 'SCTP']).default('TCP'),
      }),
    )
    .default([]),
})
const Template = z.object({
  metadata: z.object({ labels: z.record(z.string(), z.string()).default({}) }),
  spec: z.object({
    serviceAccountName: z.string().optional(),
    hostNetwork: z.boolean().optional(),
    containers: z.array(Container),
  }),
})

/** The path of the pod template in each kind of workload. */
const TEMPLATES: Readonly<Record<string, z.ZodType<{ readonly template: z.infer<typeof Template> }>>> = {
  Deployment: z.object({ spec: z.object({ template: Template }) }).transform(({ spec }) => spec),
  StatefulSet: z.object({ spec: z.object({ template: Template }) }).transform(({ spec }) => spec),
  DaemonSet: z.object({ spec: z.object({ template: Template }) }).transform(({ spec }) => spec),
  Job: z.object({ spec: z.object({ template: Template }) }).transform(({ spec }) => spec),
  SandboxTemplate: z
    .object({ spec: z.object({ podTemplate: Template }) })
    .transform(({ spec }) => ({ template: spec.podTemplate })),
  Pod: Template.transform((template) => ({ template })),
}

/** Returns one pod for each workload, with the labels of its template and the workload's name. */
export function podsOf(objects: readonly KubeObject[]): PodFacts[] {
  return objects.flatMap((object) => {
    const schema = Object.hasOwn(TEMPLATES, object.kind) ? TEMPLATES[object.kind] : undefined
    const { namespace, name } = object.metadata
    if (schema === undefined || namespace === undefined) return []
    const { template } = schema.parse(object)
    return [{ namespace, name, ...factsOf(template) }]
  })
}

function factsOf({ metadata, spec }: z.infer<typeof Template>): Omit<PodFacts, 'namespace' | 'name'> {
  const namedPorts = spec.containers.flatMap(({ ports }) =>
    ports.flatMap(({ name, containerPort, protocol }) =>
      name === undefined ? [] : [{ name, port: containerPort, protocol }],
    ),
  )
  return {
    labels: metadata.labels,
    namedPorts,
    hostNetwork: spec.hostNetwork ?? false,
    ...(spec.serviceAccountName === undefined ? {} : { serviceAccount: spec.serviceAccountName }),
  }
}
