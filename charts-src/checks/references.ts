import { names } from '../../contracts/names.ts'
import type { Check, CheckedTree, Finding, Placed } from './checked-tree.ts'
import { listAt, textAt } from './read-fields.ts'
import { podsOf } from './tree-pods.ts'

interface Reference {
  readonly kind: string
  readonly name: string | undefined
  /** Absent for cluster-scoped objects. */
  readonly namespace?: string | undefined
}

/** Every object that another one refers to must be in the tree. */
export const references: Check = (tree) => {
  const pods = podsOf(tree.objects).flatMap((pod) =>
    referencesOfPod(pod.spec, pod.namespace).map((reference) => ({ path: pod.path, reference })),
  )
  const others = tree.objects.flatMap((placed) =>
    (REFERENCES[placed.object.kind]?.(placed) ?? []).map((reference) => ({ path: placed.path, reference })),
  )
  return [...pods, ...others].flatMap(({ path, reference }): Finding[] => {
    if (reference.name === undefined || isThere(tree, reference)) return []
    const place = reference.namespace === undefined ? '' : ` in ${reference.namespace}`
    return [
      { path, message: `there is no ${reference.kind} ${reference.name}${place}`, open: 'charts-src/apps/' },
    ]
  })
}

const REFERENCES: Readonly<Record<string, (placed: Placed) => Reference[]>> = {
  SandboxWarmPool: ({ object }) => [
    {
      kind: 'SandboxTemplate',
      name: textAt(object, 'spec', 'sandboxTemplateRef', 'name'),
      namespace: object.metadata.namespace,
    },
  ],
  HorizontalPodAutoscaler: ({ object }) => [
    {
      kind: textAt(object, 'spec', 'scaleTargetRef', 'kind') ?? '?',
      name: textAt(object, 'spec', 'scaleTargetRef', 'name'),
      namespace: object.metadata.namespace,
    },
  ],
  RoleBinding: ({ object }) => [
    { kind: 'Role', name: textAt(object, 'roleRef', 'name'), namespace: object.metadata.namespace },
    ...listAt(object, 'subjects').map((subject) => ({
      kind: textAt(subject, 'kind') ?? '?',
      name: textAt(subject, 'name') ?? '?',
      namespace: textAt(subject, 'namespace') ?? '?',
    })),
  ],
  HTTPRoute: ({ object }) => [
    ...listAt(object, 'spec', 'parentRefs').map((parent) => ({
      kind: textAt(parent, 'kind') ?? '?',
      name: textAt(parent, 'name') ?? '?',
      namespace: textAt(parent, 'namespace') ?? object.metadata.namespace,
    })),
    ...listAt(object, 'spec', 'rules')
      .flatMap((rule) => listAt(rule, 'backendRefs'))
      .map((backend) => ({
        kind: textAt(backend, 'kind') ?? '?',
        name: textAt(backend, 'name') ?? '?',
        namespace: textAt(backend, 'namespace') ?? object.metadata.namespace,
      })),
  ],
  ValidatingAdmissionPolicyBinding: ({ object }) => [
    { kind: 'ValidatingAdmissionPolicy', name: textAt(object, 'spec', 'policyName') },
  ],
}

function referencesOfPod(spec: unknown, namespace: string): Reference[] {
  return [
    { kind: 'ServiceAccount', name: textAt(spec, 'serviceAccountName') ?? '?', namespace },
    { kind: 'PriorityClass', name: textAt(spec, 'priorityClassName') },
    { kind: 'RuntimeClass', name: textAt(spec, 'runtimeClassName') },
    ...listAt(spec, 'volumes').map((volume) => ({
      kind: 'ConfigMap',
      name: textAt(volume, 'configMap', 'name'),
      namespace,
    })),
  ]
}

function isThere({ environment, objects }: CheckedTree, { kind, name, namespace }: Reference): boolean {
  // A preview uses the cluster-scoped objects of the base slice.
  if (namespace === undefined && environment.slice.kind === 'preview') return true
  // The controller and its account come from the controller's own installation.
  if (namespace === names(environment.slice).namespaces.controller) return true
  return objects.some(
    ({ object }) =>
      object.kind === kind && object.metadata.name === name && object.metadata.namespace === namespace,
  )
}
