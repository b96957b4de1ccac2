/** A Kubernetes object as plain data. Only `charts-src` imports cdk8s. */
export interface KubeObject {
  readonly apiVersion: string
  readonly kind: string
  readonly metadata: {
    readonly name: string
    /** Absent for cluster-scoped objects. */
    readonly namespace?: string
    readonly labels?: Readonly<Record<string, string>>
    readonly annotations?: Readonly<Record<string, string>>
  }
  readonly [key: string]: unknown
}
