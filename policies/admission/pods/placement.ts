import { list, listed } from '../cel.ts'
import type { AdmissionRule } from '../rule.ts'

const REQUIRED_TERMS =
  'object.spec.?affinity.?nodeAffinity.?requiredDuringSchedulingIgnoredDuringExecution.?nodeSelectorTerms.orValue([])'

const host = (field: string, protects: string): AdmissionRule => ({
  name: `pod-${field.replace(/[A-Z]+/g, (part) => `-${part.toLowerCase()}`)}`,
  expression: `!object.spec.?${field}.orValue(false)`,
  message: `spec.${field} must be false or left out: a sandbox has namespaces of its own`,
  protects,
})

/** Rules for the scheduling, runtime class, host namespaces, DNS and restart policy of a sandbox pod. */
export const PLACEMENT: readonly AdmissionRule[] = [
  {
    name: 'pod-runtime-class',
    expression: "object.spec.?runtimeClassName.orValue('') == params.data.runtimeClass",
    message:
      'spec.runtimeClassName must be the one of this environment: without it the sandbox shares the host’s kernel',
    protects: 'the boundary itself: a virtual machine or a kernel of its own',
  },
  {
    name: 'pod-node-affinity',
    expression: `params.data.nodeLabel == '' || (${REQUIRED_TERMS}.size() > 0 && ${REQUIRED_TERMS}.all(t, t.?matchExpressions.orValue([]).exists(e, e.key == params.data.nodeLabel.split('=')[0] && e.operator == 'In' && e.?values.orValue([]) == [params.data.nodeLabel.split('=')[1]])))`,
    message:
      'every term of spec.affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution must ask for the sandbox nodes (operator In, their label): terms are alternatives, so one without it opens every node',
    protects: 'nodes of the control plane and of others from hosting sandboxes',
  },
  {
    name: 'pod-affinity',
    expression: "dyn(object.spec).?affinity.orValue({}).all(k, k == 'nodeAffinity')",
    message: 'spec.affinity may only have nodeAffinity: a sandbox does not choose its neighbours',
    protects: 'other workloads from a neighbour that chose them, or that keeps them away',
  },
  {
    name: 'pod-tolerations',
    expression: `object.spec.?tolerations.orValue([]).all(t, t.?key.orValue('') in ${listed('tolerations')} && t.?key.orValue('') != '')`,
    message:
      'spec.tolerations may only name the taints of sandbox nodes: a toleration without a key tolerates everything',
    protects: 'tainted nodes, the system pool among them',
  },
  {
    name: 'pod-node-name',
    expression: "request.operation != 'CREATE' || !has(object.spec.nodeName)",
    message:
      'spec.nodeName must be left out: the scheduler chooses the node, and a preset one passes by taints and affinity',
    protects: 'the choice of the node',
  },
  {
    name: 'pod-scheduler',
    expression: "object.spec.?schedulerName.orValue('default-scheduler') == 'default-scheduler'",
    message: 'spec.schedulerName must be default-scheduler',
    protects: 'the choice of the node',
  },
  {
    name: 'pod-priority',
    expression: "object.spec.?priorityClassName.orValue('') == params.data.priorityClass",
    message: 'spec.priorityClassName must be the one of sandboxes: a higher one evicts other workloads',
    protects: 'other workloads from being evicted',
  },
  host(
    'hostNetwork',
    'the node’s addresses and sockets; every network policy, which does not hold for the host’s network',
  ),
  host('hostPID', 'processes of the node and of other pods'),
  host('hostIPC', 'shared memory of the node and of other pods'),
  host('shareProcessNamespace', 'AgentHost’s memory and environment from what the agent runs'),
  {
    name: 'pod-sysctls',
    expression: 'object.spec.?securityContext.?sysctls.orValue([]).size() == 0',
    message: 'spec.securityContext.sysctls must be left out: kernel parameters reach beyond the pod',
    protects: 'kernel parameters, and runtimes that take more from them than parameters (CVE-2022-0811)',
  },
  {
    name: 'pod-dns',
    expression: `object.spec.?dnsPolicy.orValue('') == params.data.dnsPolicy && object.spec.?dnsConfig.?nameservers.orValue([]).all(n, n in ${list(['127.0.0.1', '::1'])}) && object.spec.?dnsConfig.?searches.orValue([]).size() == 0`,
    message:
      'spec.dnsPolicy must be the one of the egress mode, and spec.dnsConfig may name no resolver or search domain of its own: names are a way out',
    protects: 'the names that a sandbox may ask for',
  },
  {
    name: 'pod-restart-policy',
    expression: "object.spec.?restartPolicy.orValue('') == 'Never'",
    message: 'spec.restartPolicy must be Never: a sandbox whose process ended is spent',
    protects: 'single use, and port 8088 from being taken over after a crash',
  },
  {
    name: 'pod-termination-grace',
    expression: 'object.spec.?terminationGracePeriodSeconds.orValue(30) <= 30',
    message: 'spec.terminationGracePeriodSeconds must be at most 30',
    protects: 'that a cancelled run ends',
  },
]
