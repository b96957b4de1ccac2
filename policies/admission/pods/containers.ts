import { CONTAINERS } from '../../../contracts/names.ts'
import { eachContainer, knownFields, list } from '../cel.ts'
import type { AdmissionRule } from '../rule.ts'

const CONTAINER_FIELDS = [
  'args',
  'command',
  'env',
  'image',
  'imagePullPolicy',
  'livenessProbe',
  'name',
  'ports',
  'readinessProbe',
  'resizePolicy',
  'resources',
  'restartPolicy',
  'securityContext',
  'startupProbe',
  'terminationMessagePath',
  'terminationMessagePolicy',
  'volumeMounts',
  'workingDir',
]
/** `stdin` and `tty` are needed by the ephemeral containers of the break-glass group. */
const EPHEMERAL_FIELDS = [...CONTAINER_FIELDS, 'stdin', 'tty', 'targetContainerName']
const POD_FIELDS = [
  'affinity',
  'automountServiceAccountToken',
  'containers',
  'dnsConfig',
  'dnsPolicy',
  'enableServiceLinks',
  'ephemeralContainers',
  'initContainers',
  'nodeName',
  'nodeSelector',
  'overhead',
  'preemptionPolicy',
  'priority',
  'priorityClassName',
  'restartPolicy',
  'runtimeClassName',
  'schedulerName',
  'securityContext',
  'serviceAccount',
  'serviceAccountName',
  'terminationGracePeriodSeconds',
  'tolerations',
  'volumes',
]
/** Fields with a separate rule, which has a more specific message than the list. */
const RULED = ['hostIPC', 'hostNetwork', 'hostPID', 'shareProcessNamespace']
const RESOURCES = ['cpu', 'memory', 'ephemeral-storage']
const PROBES = ['startupProbe', 'readinessProbe', 'livenessProbe']
const hasLimit = (resource: string) => `${list([resource])}.all(r, r in c.?resources.?limits.orValue({}))`

/** The names, images, probes and resource limits of containers. */
export const CONTAINER_SHAPE: readonly AdmissionRule[] = [
  knownFields({
    name: 'pod-fields',
    of: 'dyn(object.spec)',
    at: 'spec',
    allowed: [...POD_FIELDS, ...RULED].sort(),
    protects: 'against fields that this list does not know, those of later Kubernetes versions among them',
  }),
  {
    name: 'container-names',
    expression: `object.spec.containers.size() == 2 && object.spec.containers.all(c, c.name in ${list(Object.values(CONTAINERS))})`,
    message: `spec.containers must be ${Object.values(CONTAINERS).join(' and ')}, and no other`,
    protects: 'against a container that shares the sandbox’s address and says nothing about itself',
  },
  eachContainer({
    name: 'container-fields',
    permits: `dyn(c).all(k, k in ${list(CONTAINER_FIELDS)} || k in ${list(EPHEMERAL_FIELDS)} && variables.ephemeral.exists(e, e.name == c.name))`,
    message: `has a field that a sandbox’s container may not set: remove it (envFrom, lifecycle, volumeDevices and whatever else)`,
    protects: 'against fields that this list does not know: devices, hooks, environments from Secrets',
  }),
  eachContainer({
    name: 'container-image',
    permits: `c.image.matches('@sha256:[0-9a-f]{64}$') && (c.name == '${CONTAINERS.agentHost}' ? [params.data.agentHostRepository] : c.name == '${CONTAINERS.toolbox}' ? [params.data.toolboxRepository] : [params.data.agentHostRepository, params.data.toolboxRepository]).exists(r, c.image.startsWith(r + '@sha256:'))`,
    message:
      'image must be the environment’s own for this container, by digest: <repository>@sha256:<64 hex digits>',
    protects: 'against other people’s images and against tags that move',
  }),
  eachContainer({
    name: 'container-working-dir',
    permits:
      "!c.?workingDir.orValue('').matches('(^|/)(proc|sys|dev)(/|$)') && !c.?workingDir.orValue('').contains('..')",
    message:
      'workingDir must not lie in /proc, /sys or /dev: a runtime can be led out by it (CVE-2024-21626)',
    protects: 'the host’s files from a runtime that leaks a descriptor',
  }),
  eachContainer({
    name: 'container-env',
    permits:
      "c.?env.orValue([]).all(e, dyn(e.?valueFrom.orValue({})).all(k, k in ['fieldRef', 'resourceFieldRef']))",
    message:
      'env[].valueFrom may only be fieldRef or resourceFieldRef: no Secret and no ConfigMap reaches an environment',
    protects: 'Secrets of the namespace',
  }),
  eachContainer({
    name: 'container-limits',
    of: 'regular',
    permits: RESOURCES.map(hasLimit).join(' && '),
    message: `resources.limits must have ${RESOURCES.join(', ')}`,
    protects: 'the node and other sandboxes from a run that takes everything',
  }),
  eachContainer({
    name: 'container-memory',
    of: 'regular',
    permits:
      "quantity(string(c.?resources.?requests.?memory.orValue('0'))).compareTo(quantity(string(c.?resources.?limits.?memory.orValue('1')))) == 0",
    message:
      'resources.requests.memory must equal resources.limits.memory: in a virtual machine the limit is its size',
    protects: 'other sandboxes from a node that is out of memory',
  }),
  eachContainer({
    name: 'container-devices',
    permits: `dyn(c.?resources.orValue({})).all(k, k in ['limits', 'requests']) && c.?resources.?limits.orValue({}).all(r, r in ${list(RESOURCES)}) && c.?resources.?requests.orValue({}).all(r, r in ${list(RESOURCES)})`,
    message: `resources may only name ${RESOURCES.join(', ')}: no devices, huge pages or resource claims`,
    protects: 'devices of the node',
  }),
  eachContainer({
    name: 'container-host-port',
    permits: 'c.?ports.orValue([]).all(p, !has(p.hostPort) && !has(p.hostIP))',
    message: 'ports[].hostPort and hostIP must be left out',
    protects: 'addresses of the node',
  }),
  eachContainer({
    name: 'container-probes',
    permits: `c.name != '${CONTAINERS.agentHost}' || ${PROBES.map((probe) => `has(c.${probe})`).join(' && ')}`,
    message: `${CONTAINERS.agentHost} must have ${PROBES.join(', ')}`,
    protects: 'that a sandbox which cannot serve is never handed out',
  }),
  eachContainer({
    name: 'container-probe-host',
    permits: PROBES.map(
      (probe) =>
        `['httpGet', 'tcpSocket'].all(a, !has(c.${probe}) || !(a in dyn(c.${probe})) || !('host' in dyn(c.${probe})[a]))`,
    ).join(' && '),
    message: 'probes must not set host: the node itself would call that address',
    protects: 'what the node can reach and a sandbox cannot',
  }),
]
