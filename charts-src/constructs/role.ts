import type { Construct } from 'constructs'
import { addObject } from './plain-object.ts'

const API_VERSION = 'rbac.authorization.k8s.io/v1'

/** Verbs on resources of one API group. */
export interface Rule {
  readonly apiGroup: string
  readonly resources: readonly string[]
  readonly verbs: readonly string[]
}

export interface RoleProps {
  readonly name: string
  readonly namespace: string
  readonly rules: readonly Rule[]
  /** The service account that the role is bound to. */
  readonly account: { readonly name: string; readonly namespace: string }
}

/** A Role and its binding to one service account. */
export function addRole(scope: Construct, { name, namespace, rules, account }: RoleProps): void {
  addObject(scope, {
    apiVersion: API_VERSION,
    kind: 'Role',
    metadata: { name, namespace },
    rules: rules.map(({ apiGroup, resources, verbs }) => ({ apiGroups: [apiGroup], resources, verbs })),
  })
  addObject(scope, {
    apiVersion: API_VERSION,
    kind: 'RoleBinding',
    metadata: { name, namespace },
    roleRef: { apiGroup: 'rbac.authorization.k8s.io', kind: 'Role', name },
    subjects: [{ kind: 'ServiceAccount', ...account }],
  })
}
