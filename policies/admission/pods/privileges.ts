import { CONTAINERS } from '../../../contracts/names.ts'
import { POD_USERS } from '../../../contracts/pod.ts'
import { eachContainer, list } from '../cel.ts'
import type { AdmissionRule } from '../rule.ts'

const sc = 'c.?securityContext'
/** A container's setting overrides the pod's. */
const effective = (field: string, fallback: string) =>
  `${sc}.?${field}.orValue(dyn(object.spec).?securityContext.?${field}.orValue(${fallback}))`

const FIELDS = [
  'allowPrivilegeEscalation',
  'capabilities',
  'privileged',
  'readOnlyRootFilesystem',
  'runAsGroup',
  'runAsNonRoot',
  'runAsUser',
  'seccompProfile',
]
const POD_FIELDS = [
  'fsGroup',
  'fsGroupChangePolicy',
  'runAsGroup',
  'runAsNonRoot',
  'runAsUser',
  'seccompProfile',
  'sysctls',
]
const POD_CONTEXT = 'dyn(object.spec).?securityContext.orValue({})'

/** Privileges of a container on the kernel that it runs on. */
export const PRIVILEGES: readonly AdmissionRule[] = [
  eachContainer({
    name: 'container-privileged',
    permits: `!${sc}.?privileged.orValue(false)`,
    message: 'securityContext.privileged must be false or left out',
    protects: 'the node: a privileged container has its devices and all capabilities',
  }),
  eachContainer({
    name: 'container-escalation',
    permits: `${sc}.?allowPrivilegeEscalation.orValue(true) == false`,
    message: 'securityContext.allowPrivilegeEscalation must be false',
    protects: 'against set-uid programs in the image',
  }),
  eachContainer({
    name: 'container-capabilities',
    permits: `${sc}.?capabilities.?drop.orValue([]).exists(x, x == 'ALL') && ${sc}.?capabilities.?add.orValue([]).size() == 0`,
    message: 'securityContext.capabilities must drop ALL and add none',
    protects: 'the kernel: mounts, modules, raw and packet sockets, eBPF, reading past permissions',
  }),
  eachContainer({
    name: 'container-read-only-root',
    permits: `${sc}.?readOnlyRootFilesystem.orValue(false)`,
    message: 'securityContext.readOnlyRootFilesystem must be true',
    protects: 'the programs of the image from being replaced',
  }),
  eachContainer({
    name: 'container-non-root',
    permits: `${effective('runAsNonRoot', 'false')} && ${effective('runAsUser', '0')} > 0 && ${effective('runAsGroup', '0')} > 0`,
    message:
      'securityContext must set runAsNonRoot: true, and runAsUser and runAsGroup other than 0 (here or for the pod)',
    protects: 'the kernel and mounted files from root',
  }),
  eachContainer({
    name: 'container-user',
    permits: `c.name != '${CONTAINERS.agentHost}' && c.name != '${CONTAINERS.toolbox}' || ${effective('runAsUser', '0')} == (c.name == '${CONTAINERS.agentHost}' ? ${POD_USERS.agentHost} : ${POD_USERS.toolbox}) && ${effective('runAsGroup', '0')} == ${POD_USERS.group}`,
    message: `${CONTAINERS.agentHost} must run as ${POD_USERS.agentHost}:${POD_USERS.group} and ${CONTAINERS.toolbox} as ${POD_USERS.toolbox}:${POD_USERS.group} (runAsUser, runAsGroup)`,
    protects: 'AgentHost’s files and memory from what the agent runs',
  }),
  eachContainer({
    name: 'container-seccomp',
    permits: `${effective('seccompProfile', '{}')}.?type.orValue('') == 'RuntimeDefault'`,
    message: 'securityContext.seccompProfile.type must be RuntimeDefault (here or for the pod)',
    protects: 'the kernel from system calls that no program here needs',
  }),
  eachContainer({
    name: 'container-security-fields',
    permits: `dyn(${sc}.orValue({})).all(k, k in ${list(FIELDS)})`,
    message: `securityContext may only have ${FIELDS.join(', ')}: remove procMount, seLinuxOptions, windowsOptions and whatever else`,
    protects: 'against switches that this list does not know',
  }),
  {
    name: 'pod-security-fields',
    expression: `${POD_CONTEXT}.all(k, k in ${list(POD_FIELDS)})`,
    offenders: `${POD_CONTEXT}.filter(k, !(k in ${list(POD_FIELDS)})).map(k, 'spec.securityContext.' + string(k))`,
    message: `is not among ${POD_FIELDS.join(', ')}: remove it`,
    protects: 'against switches that this list does not know',
  },
  {
    name: 'pod-fs-group',
    expression: `object.spec.?securityContext.?fsGroup.orValue(0) == ${POD_USERS.group} && object.spec.?securityContext.?fsGroupChangePolicy.orValue('') == 'OnRootMismatch'`,
    message: `spec.securityContext must set fsGroup: ${POD_USERS.group} and fsGroupChangePolicy: OnRootMismatch`,
    protects: 'that both users can use the volumes, and no other group can',
  },
]
