import { CONTROLLER_IDENTITY } from '../../policies/admission/actors.ts'
import type { AdmissionParameters } from '../../policies/admission/parameters.ts'

/**
 * The accounts that send requests. RBAC permits everything to each of them, so a rejection comes from an admission
 * rule.
 */
export type Actor =
  | 'controller'
  | 'api'
  | 'gitops'
  | 'breakGlass'
  | 'tenant'
  | 'node'
  | 'scheduler'
  | 'collector'
  | 'endpoints'
  | 'quotas'

/** The place that examples are made for: a namespace of sandboxes and what its parameters say. */
export interface AdmissionSpace {
  readonly namespace: string
  /** The slice's other namespace: under the label too, without sandboxes. */
  readonly controlPlane: string
  readonly sliceLabel: string
  readonly parameters: AdmissionParameters
}

export const GITOPS_IDENTITY = 'system:serviceaccount:gitops:gitops-controller'
export const BREAK_GLASS_GROUP = 'sandbox-break-glass'

const EVERYTHING = 'system:masters'

export function identityOf(actor: Actor, { parameters }: AdmissionSpace): { user: string; groups: string[] } {
  const groups = [EVERYTHING, 'system:authenticated']
  const users: Record<Actor, string> = {
    controller: CONTROLLER_IDENTITY,
    api: parameters.apiIdentity,
    gitops: GITOPS_IDENTITY,
    breakGlass: 'person',
    tenant: 'tenant',
    node: 'kubelet',
    scheduler: 'system:kube-scheduler',
    collector: 'system:serviceaccount:kube-system:generic-garbage-collector',
    endpoints: 'system:serviceaccount:kube-system:endpointslice-controller',
    quotas: 'system:apiserver',
  }
  const extra: Partial<Record<Actor, string>> = { breakGlass: BREAK_GLASS_GROUP, node: 'system:nodes' }
  return { user: users[actor], groups: extra[actor] ? [...groups, extra[actor]] : groups }
}

export const DIGEST = `@sha256:${'ab'.repeat(32)}`

/** What an environment with Kata would say. */
export function kataParameters(runtimeClass: string): AdmissionParameters {
  return {
    pools: 'agentweaver-agent,agentweaver-command',
    apiIdentity: 'system:serviceaccount:agentweaver:agentweaver-api',
    maxLife: '24h',
    agentAccount: 'agentweaver-agent-host',
    commandAccount: 'agentweaver-command-host',
    agentAudiences: 'agentweaver-api,api://AzureADTokenExchange',
    commandAudiences: 'agentweaver-api',
    runtimeClass,
    nodeLabel: 'agentweaver.io/kata=true',
    tolerations: 'sandbox,node.kubernetes.io/not-ready,node.kubernetes.io/unreachable',
    priorityClass: '',
    dnsPolicy: 'ClusterFirst',
    agentHostRepository: 'registry.example/agent-host',
    toolboxRepository: 'registry.example/toolbox',
    executorKeys: 'agentweaver-executor-keys',
  }
}
