import type { KubeObject } from '../charts-src/kube-object.ts'
import type { PortSet, Protocol } from './port-set.ts'

/** Cilium's reserved identities. */
export type Entity =
  | 'world'
  | 'host'
  | 'remote-node'
  | 'kube-apiserver'
  | 'health'
  | 'ingress'
  | 'init'
  | 'unmanaged'

/** One end of a connection. */
export type End =
  | { readonly kind: 'pod'; readonly namespace: string; readonly name: string }
  /** An address. It counts as a pod, a node or the API server if the cluster facts list it, otherwise as external. */
  | {
      readonly kind: 'address'
      readonly ip: string
      /** Names for which the node's agent has learned this address from a lookup. @default none */
      readonly learnedNames?: readonly string[]
    }
  /** A name outside the cluster, only as a target: `from` looks it up and then connects to it. */
  | {
      readonly kind: 'name'
      readonly name: string
      /** Address that the name resolves to. @default an address outside every range in use */
      readonly ip?: string
    }
  | { readonly kind: 'entity'; readonly entity: Entity }

/** Asks whether `from` may open a connection to `to` at this port. */
export interface Probe {
  readonly from: Exclude<End, { readonly kind: 'name' }>
  readonly to: End
  readonly protocol: Protocol
  /** 1–65535; ignored for `ICMP`. */
  readonly port: number
}

/** The rule that decided, with its path inside the policy object. */
export interface RuleRef {
  /** `NetworkPolicy agentweaver-sandboxes/default-deny` */
  readonly policy: string
  /** `spec.egress[1]` */
  readonly path: string
}

/** The verdict of one side of a connection. */
export interface Verdict {
  readonly allowed: boolean
  readonly because:
    | 'no policy selects it'
    | 'rule'
    | 'deny rule'
    | 'default deny'
    | 'the agent lets a node reach its own pods'
    | 'no policy of a pod applies to it'
    | 'only default-allow policies select it'
    | 'the name is not listed'
    | 'there is no resolver'
    | 'it never leaves the pod'
  /** Set if a single rule decided. */
  readonly rule?: RuleRef
}

export interface Answer {
  readonly allowed: boolean
  /** Explanation: the rule that decided, or the default deny. */
  readonly why: string
  /** Verdict of the policies that select the source pod. */
  readonly egress: Verdict
  /** Verdict of the policies that select the target pod. */
  readonly ingress: Verdict
  /** Only for a name: whether `from` may look it up at the cluster's resolver. */
  readonly lookup?: Verdict
}

export interface PodFacts {
  readonly namespace: string
  readonly name: string
  readonly labels: Readonly<Record<string, string>>
  /** @default [] */
  readonly ips?: readonly string[]
  /** Name of the pod's node. Pods without one count as running on separate nodes. */
  readonly node?: string
  /** Policies treat a pod in the host network as its node. @default false */
  readonly hostNetwork?: boolean
  /** @default 'default' */
  readonly serviceAccount?: string
  /** Named container ports, for rules that refer to a port by name. */
  readonly namedPorts?: readonly {
    readonly name: string
    readonly port: number
    readonly protocol: Protocol
  }[]
}

/** The cluster that the policies apply to: all facts except the policies. */
export interface ClusterFacts {
  readonly namespaces: readonly {
    readonly name: string
    readonly labels?: Readonly<Record<string, string>>
  }[]
  readonly pods: readonly PodFacts[]
  readonly nodes?: readonly { readonly name: string; readonly ips: readonly string[] }[]
  /** Addresses of the API server. An address that is also a node's counts as that node. */
  readonly apiServer?: { readonly ips: readonly string[] }
  /** The DNS pod of the cluster. Without it no name can be resolved. */
  readonly resolver?: { readonly namespace: string; readonly name: string }
}

/**
 * The reason why a policy cannot be evaluated. With a single fault there is no evaluator, because a skipped policy
 * would change verdicts.
 */
export interface PolicyFault {
  readonly kind: 'not understood' | 'refused by the agent'
  /** `CiliumNetworkPolicy agentweaver-sandboxes/agent-egress` */
  readonly policy: string
  /** `spec.egress[0].toServices` */
  readonly path: string
  readonly reason: string
}

/** Ports that each side of a connection allows by itself. */
export interface OpenSides {
  readonly egress: PortSet
  readonly ingress: PortSet
}

export interface Evaluator {
  evaluate(probe: Probe): Answer
  /** Returns only the verdict, for callers with very many probes. */
  isAllowed(probe: Probe): boolean
  /** Returns all ports that `from` may connect to. */
  openPorts(from: Probe['from'], to: Exclude<End, { readonly kind: 'name' }>): PortSet
  /** Returns the open ports of each side separately. */
  openSides(from: Probe['from'], to: Exclude<End, { readonly kind: 'name' }>): OpenSides
}

export type EvaluatorOutcome =
  | { readonly ok: true; readonly evaluator: Evaluator }
  | { readonly ok: false; readonly faults: readonly PolicyFault[] }

/** The rendered policies. Other objects are ignored unless they could influence reachability. */
export type PolicyObjects = readonly KubeObject[]
