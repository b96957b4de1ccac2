import type { KubeObject } from '../charts-src/kube-object.ts'
import type { PortSet } from './port-set.ts'

/** What a packet is, as far as a policy sees it. `ICMP` has no port: only rules for all ports let it through. */
export type Protocol = 'TCP' | 'UDP' | 'SCTP' | 'ICMP'

/** Identities that Cilium keeps for itself. */
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
  /** An address; it is a pod's, a node's or the API server's where the cluster says so, else it is outside. */
  | {
      readonly kind: 'address'
      readonly ip: string
      /** Names for which the node's agent has learned this address from a lookup. @default none */
      readonly learnedNames?: readonly string[]
    }
  /** A name outside the cluster: looked up first by `from`, then connected to. Only as a target. */
  | {
      readonly kind: 'name'
      readonly name: string
      /** What the name resolves to. @default an address of its own outside every range in use */
      readonly ip?: string
    }
  | { readonly kind: 'entity'; readonly entity: Entity }

/** May `from` open a connection to `to` at this port? */
export interface Probe {
  readonly from: Exclude<End, { readonly kind: 'name' }>
  readonly to: End
  readonly protocol: Protocol
  /** 1–65535; ignored for `ICMP`. */
  readonly port: number
}

/** The rule of a policy that decided, with the path inside the object. */
export interface RuleRef {
  /** `NetworkPolicy agentweaver-sandboxes/default-deny` */
  readonly policy: string
  /** `spec.egress[1]` */
  readonly path: string
}

/** What one side of a connection says to it. */
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
  /** Present where one rule decided. */
  readonly rule?: RuleRef
}

export interface Answer {
  readonly allowed: boolean
  /** The sentence for a person: which rule, or which default deny. */
  readonly why: string
  /** What the policies of the pod it comes from say. */
  readonly egress: Verdict
  /** What the policies of the pod it goes to say. */
  readonly ingress: Verdict
  /** For a name: whether `from` may ask the cluster's resolver for it. */
  readonly lookup?: Verdict
}

export interface PodFacts {
  readonly namespace: string
  readonly name: string
  readonly labels: Readonly<Record<string, string>>
  /** @default [] */
  readonly ips?: readonly string[]
  /** Name of its node; pods without one count as being on nodes of their own. */
  readonly node?: string
  /** A pod in the node's network is the node to every policy. @default false */
  readonly hostNetwork?: boolean
  /** @default 'default' */
  readonly serviceAccount?: string
  /** Container ports with a name, for rules that name a port. */
  readonly namedPorts?: readonly {
    readonly name: string
    readonly port: number
    readonly protocol: Protocol
  }[]
}

/** What the policies act on: everything that is not itself a policy. */
export interface ClusterFacts {
  readonly namespaces: readonly {
    readonly name: string
    readonly labels?: Readonly<Record<string, string>>
  }[]
  readonly pods: readonly PodFacts[]
  readonly nodes?: readonly { readonly name: string; readonly ips: readonly string[] }[]
  /** Addresses at which the API server is reached; one that is also a node's is that node. */
  readonly apiServer?: { readonly ips: readonly string[] }
  /** The pod that answers lookups of names; without it no name can be looked up. */
  readonly resolver?: { readonly namespace: string; readonly name: string }
}

/** Why a policy cannot be evaluated. Nothing is ever skipped: one fault and there is no evaluator. */
export interface PolicyFault {
  readonly kind: 'not understood' | 'refused by the agent'
  /** `CiliumNetworkPolicy agentweaver-sandboxes/agent-egress` */
  readonly policy: string
  /** `spec.egress[0].toServices` */
  readonly path: string
  readonly reason: string
}

/** What each side of a connection lets through by itself. */
export interface OpenSides {
  readonly egress: PortSet
  readonly ingress: PortSet
}

export interface Evaluator {
  evaluate(probe: Probe): Answer
  /** Only the answer, for those that ask very often. */
  isAllowed(probe: Probe): boolean
  /** Every port that `from` may connect to. */
  openPorts(from: Probe['from'], to: Exclude<End, { readonly kind: 'name' }>): PortSet
  /** The same, each side for itself. */
  openSides(from: Probe['from'], to: Exclude<End, { readonly kind: 'name' }>): OpenSides
}

export type EvaluatorOutcome =
  | { readonly ok: true; readonly evaluator: Evaluator }
  | { readonly ok: false; readonly faults: readonly PolicyFault[] }

/** Policies as they are rendered; other objects among them are ignored unless they could change the network. */
export type PolicyObjects = readonly KubeObject[]
