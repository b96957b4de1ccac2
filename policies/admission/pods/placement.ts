import { list, listed } from '../cel.ts'
import type { AdmissionRule } from '../rule.ts'

const REQUIRED_TERMS =
  'object.spec.?affinity.?nodeAffinity.?requiredDuringSchedulingIgnoredDuringExecution.?nodeSelectorTerms.orValue([])'

const host = (field: string, risk: string): AdmissionRule => ({
  name: `pod-${field.replace(/[A-Z]+/g, (part) => `-${part.toLowerCase()}`)}`,
  expression: `!object.spec.?${field}.orValue(false)`,
  message: `spec.${field} must be false or left out: a sandbox must not share namespaces`,
  risk,
})

/** Rules for the scheduling, runtime class, host namespaces, DNS and restart policy of a sandbox pod. */
export const PLACEMENT: readonly AdmissionRule[] = [
  {
    name: 'pod-runtime-class',
    expression: "object.spec.?runtimeClassName.orValue('') == params.data.runtimeClass",
    message:
      'spec.runtimeClassName must be the one of this environment: without it the sandbox shares the host’s kernel',
    risk: 'the sandbox would share the kernel of its node',
  },
  {
    name: 'pod-node-affinity',
    expression: `params.data.nodeLabel == '' || (${REQUIRED_TERMS}.size() > 0 && ${REQUIRED_TERMS}.all(t, t.?matchExpressions.orValue([]).exists(e, e.key == params.data.nodeLabel.split('=')[0] && e.operator == 'In' && e.?values.orValue([]) == [params.data.nodeLabel.split('=')[1]])))`,
    message:
      'every term of spec.affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution must require the sandbox nodes (operator In, their label): terms are alternatives, so one term without it allows every node',
    risk: 'sandboxes could run on nodes of the control plane or of other workloads',
  },
  {
    name: 'pod-affinity',
    expression: "dyn(object.spec).?affinity.orValue({}).all(k, k == 'nodeAffinity')",
    message: 'spec.affinity may only have nodeAffinity: a sandbox does not choose its neighbours',
    risk: 'a sandbox could place itself next to a chosen workload, or keep workloads away from its node',
  },
  {
    name: 'pod-tolerations',
    expression: `object.spec.?tolerations.orValue([]).all(t, t.?key.orValue('') in ${listed('tolerations')} && t.?key.orValue('') != '')`,
    message:
      'spec.tolerations may only name the taints of sandbox nodes: a toleration without a key tolerates everything',
    risk: 'sandboxes could run on tainted nodes, for example in the system pool',
  },
  {
    name: 'pod-node-name',
    expression: "request.operation != 'CREATE' || !has(object.spec.nodeName)",
    message:
      'spec.nodeName must be left out: the scheduler chooses the node, and a preset node bypasses taints and affinity',
    risk: 'the pod would bypass the scheduler, and with it taints and affinity',
  },
  {
    name: 'pod-scheduler',
    expression: "object.spec.?schedulerName.orValue('default-scheduler') == 'default-scheduler'",
    message: 'spec.schedulerName must be default-scheduler',
    risk: 'another scheduler could place the pod on any node',
  },
  {
    name: 'pod-priority',
    expression: "object.spec.?priorityClassName.orValue('') == params.data.priorityClass",
    message:
      'spec.priorityClassName must be the priority class of sandboxes: a higher one evicts other workloads',
    risk: 'sandboxes could evict other workloads',
  },
  host(
    'hostNetwork',
    'the sandbox could use addresses and sockets of the node, and no network policy would apply to it',
  ),
  host('hostPID', 'the sandbox could see processes of the node and of other pods'),
  host('hostIPC', 'the sandbox could read shared memory of the node and of other pods'),
  host('shareProcessNamespace', 'commands of the agent could read AgentHost’s memory and environment'),
  {
    name: 'pod-sysctls',
    expression: 'object.spec.?securityContext.?sysctls.orValue([]).size() == 0',
    message: 'spec.securityContext.sysctls must be left out: kernel parameters affect more than the pod',
    risk: 'the sandbox could change kernel parameters, or attack a runtime through their values (CVE-2022-0811)',
  },
  {
    name: 'pod-dns',
    expression: `object.spec.?dnsPolicy.orValue('') == params.data.dnsPolicy && object.spec.?dnsConfig.?nameservers.orValue([]).all(n, n in ${list(['127.0.0.1', '::1'])}) && object.spec.?dnsConfig.?searches.orValue([]).size() == 0`,
    message:
      'spec.dnsPolicy must be the one of the egress mode, and spec.dnsConfig must not add resolvers or search domains: DNS queries can carry data out',
    risk: 'the sandbox could send data out in DNS queries, through a resolver or search domain of its choice',
  },
  {
    name: 'pod-restart-policy',
    expression: "object.spec.?restartPolicy.orValue('') == 'Never'",
    message: 'spec.restartPolicy must be Never: a sandbox is used only once',
    risk: 'a sandbox could be used twice: after a crash, another process could take over port 8088',
  },
  {
    name: 'pod-termination-grace',
    expression: 'object.spec.?terminationGracePeriodSeconds.orValue(30) <= 30',
    message: 'spec.terminationGracePeriodSeconds must be at most 30',
    risk: 'a cancelled run could continue for longer than 30 seconds',
  },
]
