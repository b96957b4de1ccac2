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
    risk: 'a field that these rules do not check, for example of a later Kubernetes version, could weaken the isolation',
  }),
  {
    name: 'container-names',
    expression: `object.spec.containers.size() == 2 && object.spec.containers.all(c, c.name in ${list(Object.values(CONTAINERS))})`,
    message: `spec.containers must be ${Object.values(CONTAINERS).join(' and ')}, and no other`,
    risk: 'an additional container could use the network address of the sandbox',
  },
  eachContainer({
    name: 'container-fields',
    permits: `dyn(c).all(k, k in ${list(CONTAINER_FIELDS)} || k in ${list(EPHEMERAL_FIELDS)} && variables.ephemeral.exists(e, e.name == c.name))`,
    message: `has a field that a sandbox’s container may not set, such as envFrom, lifecycle or volumeDevices: remove it`,
    risk: 'a field that these rules do not check could add devices, hooks or environment variables from Secrets',
  }),
  eachContainer({
    name: 'container-image',
    permits: `c.image.matches('@sha256:[0-9a-f]{64}$') && (c.name == '${CONTAINERS.agentHost}' ? [params.data.agentHostRepository] : c.name == '${CONTAINERS.toolbox}' ? [params.data.toolboxRepository] : [params.data.agentHostRepository, params.data.toolboxRepository]).exists(r, c.image.startsWith(r + '@sha256:'))`,
    message:
      'image must be the environment’s image for this container, with its digest: <repository>@sha256:<64 hex digits>',
    risk: 'the sandbox could run a foreign image, or a tag that was moved to another image',
  }),
  eachContainer({
    name: 'container-working-dir',
    permits:
      "!c.?workingDir.orValue('').matches('(^|/)(proc|sys|dev)(/|$)') && !c.?workingDir.orValue('').contains('..')",
    message:
      'workingDir must not be in /proc, /sys or /dev: a container can escape through it (CVE-2024-21626)',
    risk: 'a runtime that leaks a file descriptor would give the container access to files of the host',
  }),
  eachContainer({
    name: 'container-env',
    permits:
      "c.?env.orValue([]).all(e, dyn(e.?valueFrom.orValue({})).all(k, k in ['fieldRef', 'resourceFieldRef']))",
    message:
      'env[].valueFrom may only be fieldRef or resourceFieldRef: values from Secrets and ConfigMaps are not allowed',
    risk: 'a sandbox could read Secrets of the namespace in its environment',
  }),
  eachContainer({
    name: 'container-limits',
    of: 'regular',
    permits: RESOURCES.map(hasLimit).join(' && '),
    message: `resources.limits must have ${RESOURCES.join(', ')}`,
    risk: 'one run could use up its node',
  }),
  eachContainer({
    name: 'container-memory',
    of: 'regular',
    permits:
      "quantity(string(c.?resources.?requests.?memory.orValue('0'))).compareTo(quantity(string(c.?resources.?limits.?memory.orValue('1')))) == 0",
    message:
      'resources.requests.memory must equal resources.limits.memory: the limit is the size of the virtual machine',
    risk: 'a node could run out of memory and end other sandboxes',
  }),
  eachContainer({
    name: 'container-devices',
    permits: `dyn(c.?resources.orValue({})).all(k, k in ['limits', 'requests']) && c.?resources.?limits.orValue({}).all(r, r in ${list(RESOURCES)}) && c.?resources.?requests.orValue({}).all(r, r in ${list(RESOURCES)})`,
    message: `resources may only name ${RESOURCES.join(', ')}: no devices, huge pages or resource claims`,
    risk: 'the sandbox could use devices of the node',
  }),
  eachContainer({
    name: 'container-host-port',
    permits: 'c.?ports.orValue([]).all(p, !has(p.hostPort) && !has(p.hostIP))',
    message: 'ports[].hostPort and hostIP must be left out',
    risk: 'the sandbox could listen on addresses of the node',
  }),
  eachContainer({
    name: 'container-probes',
    permits: `c.name != '${CONTAINERS.agentHost}' || ${PROBES.map((probe) => `has(c.${probe})`).join(' && ')}`,
    message: `${CONTAINERS.agentHost} must have ${PROBES.join(', ')}`,
    risk: 'a run could get a sandbox that cannot serve it',
  }),
  eachContainer({
    name: 'container-probe-host',
    permits: PROBES.map(
      (probe) =>
        `['httpGet', 'tcpSocket'].all(a, !has(c.${probe}) || !(a in dyn(c.${probe})) || !('host' in dyn(c.${probe})[a]))`,
    ).join(' && '),
    message: 'probes must not set host: the node itself would call that address',
    risk: 'the kubelet could be made to connect to addresses that a sandbox cannot reach',
  }),
]
