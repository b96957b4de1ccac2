/** One object of the cluster as plain data. Generators return these; nothing outside `charts-src` needs cdk8s. */
export interface KubeObject {
  readonly apiVersion: string
  readonly kind: string
  readonly metadata: {
    readonly name: string
    /** Absent for objects that belong to the whole cluster. */
    readonly namespace?: string
    readonly labels?: Readonly<Record<string, string>>
    readonly annotations?: Readonly<Record<string, string>>
  }
  readonly [key: string]: unknown
}
