import type { Check, Finding } from './checked-tree.ts'
import { listAt } from './read-fields.ts'

/** Resources that no role may grant. Each one leads into a sandbox or to a credential. */
const NEVER = [
  'secrets',
  'pods/exec',
  'pods/attach',
  'pods/portforward',
  'pods/proxy',
  'pods/ephemeralcontainers',
  'serviceaccounts/token',
  'nodes',
  'nodes/proxy',
]
const VERBS = ['create', 'delete', 'get', 'list', 'patch', 'update', 'watch']
/** API groups in which write access lets an account grant itself any permission. */
const RULING_GROUPS = ['rbac.authorization.k8s.io', 'admissionregistration.k8s.io', 'certificates.k8s.io']

/** Rejects wildcards, verbs that pass permissions on, and the resources of `NEVER`. */
export const rights: Check = ({ objects }) =>
  objects.flatMap(({ path, object }): Finding[] => {
    const open = 'charts-src/apps/api.ts'
    if (object.kind === 'ClusterRole' || object.kind === 'ClusterRoleBinding') {
      return [{ path, message: 'rights of ours are never the whole cluster’s', open }]
    }
    if (object.kind !== 'Role') return []
    return listAt(object, 'rules').flatMap((rule) =>
      faultsOf(rule).map((message) => ({ path, message, open })),
    )
  })

function faultsOf(rule: unknown): string[] {
  const [groups, resources, verbs] = ['apiGroups', 'resources', 'verbs'].map((field) =>
    listAt(rule, field).map(String),
  )
  const what = (resources ?? []).join(', ')
  return [
    ...(resources ?? [])
      .filter((resource) => resource.includes('*'))
      .map(() => 'a rule gives every resource'),
    ...(groups ?? []).filter((group) => group === '*').map(() => `the rule of ${what} gives every group`),
    ...(groups ?? [])
      .filter((group) => RULING_GROUPS.includes(group))
      .map((group) => `a rule gives ${group}`),
    ...(resources ?? [])
      .filter((resource) => NEVER.includes(resource))
      .map((resource) => `a rule gives ${resource}`),
    ...(verbs ?? [])
      .filter((verb) => !VERBS.includes(verb))
      .map((verb) => `the rule of ${what} gives the verb ${verb}`),
  ]
}
