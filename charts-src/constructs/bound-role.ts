import { Construct } from 'constructs'
import { KubeRole, KubeRoleBinding } from '../imports/k8s.js'

/** Verbs on resources of one API group. */
export interface Rule {
  readonly apiGroup: string
  readonly resources: readonly string[]
  readonly verbs: readonly string[]
}

export interface BoundRoleProps {
  readonly name: string
  readonly namespace: string
  readonly rules: readonly Rule[]
  /** The service account that the role is bound to. */
  readonly account: { readonly name: string; readonly namespace: string }
}

/** A Role and its binding to one service account. */
export class BoundRole extends Construct {
  constructor(scope: Construct, id: string, { name, namespace, rules, account }: BoundRoleProps) {
    super(scope, id)
    new KubeRole(this, 'Role', {
      metadata: { name, namespace },
      rules: rules.map(({ apiGroup, resources, verbs }) => ({
        apiGroups: [apiGroup],
        resources: [...resources],
        verbs: [...verbs],
      })),
    })
    new KubeRoleBinding(this, 'Binding', {
      metadata: { name, namespace },
      roleRef: { apiGroup: 'rbac.authorization.k8s.io', kind: 'Role', name },
      subjects: [{ kind: 'ServiceAccount', name: account.name, namespace: account.namespace }],
    })
  }
}
