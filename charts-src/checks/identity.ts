import type { Check, Finding } from './checked-tree.ts'

const groupOf = (apiVersion: string) => (apiVersion.includes('/') ? apiVersion.split('/')[0] : '')

/**
 * Two objects with the same group, kind, namespace and name: the later one would silently replace the first.
 */
export const duplicates: Check = ({ objects }) => {
  const seen = new Map<string, string>()
  return objects.flatMap(({ path, object }): Finding[] => {
    const { apiVersion, kind, metadata } = object
    const key = [groupOf(apiVersion), kind, metadata.namespace ?? '', metadata.name].join('/')
    const first = seen.get(key)
    if (first === undefined) {
      seen.set(key, path)
      return []
    }
    return [{ path, message: `${kind} ${metadata.name} stands in ${first} too`, open: 'charts-src/apps/' }]
  })
}

/** RFC 1123 subdomain, the name format of every kind in the tree. */
const SUBDOMAIN =
  /^(?=.{1,253}$)[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?(?:\.[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?)*$/
const LABEL = /^[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?$/
const LABEL_VALUE = /^(?:[A-Za-z0-9](?:[A-Za-z0-9._-]{0,61}[A-Za-z0-9])?)?$/
/** Kinds whose name becomes a DNS label or a label value. */
const LABEL_KINDS = [
  'Namespace',
  'Service',
  'Gateway',
  'Deployment',
  'Job',
  'SandboxTemplate',
  'SandboxWarmPool',
]

export const nameForms: Check = ({ objects }) =>
  objects.flatMap(({ path, object }) => {
    const { kind, metadata } = object
    const form = LABEL_KINDS.includes(kind) ? LABEL : SUBDOMAIN
    const labels = Object.entries(metadata.labels ?? {}).filter(([, value]) => !LABEL_VALUE.test(value))
    return [
      ...(form.test(metadata.name)
        ? []
        : [
            {
              path,
              message: `${JSON.stringify(metadata.name)} is no name for a ${kind}`,
              open: 'contracts/names.ts',
            },
          ]),
      ...labels.map(([key, value]) => ({
        path,
        message: `label ${key} has a value that no label may have: ${JSON.stringify(value)}`,
        open: 'charts-src/workloads.ts',
      })),
    ]
  })
