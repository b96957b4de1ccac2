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
    risk: 'the container would have all capabilities and the devices of the node',
  }),
  eachContainer({
    name: 'container-escalation',
    permits: `${sc}.?allowPrivilegeEscalation.orValue(true) == false`,
    message: 'securityContext.allowPrivilegeEscalation must be false',
    risk: 'set-user-ID programs of the image could gain privileges',
  }),
  eachContainer({
    name: 'container-capabilities',
    permits: `${sc}.?capabilities.?drop.orValue([]).exists(x, x == 'ALL') && ${sc}.?capabilities.?add.orValue([]).size() == 0`,
    message: 'securityContext.capabilities must drop ALL and add none',
    risk: 'the container could mount file systems, load kernel modules and eBPF programs, open raw and packet sockets, and bypass file permissions',
  }),
  eachContainer({
    name: 'container-read-only-root',
    permits: `${sc}.?readOnlyRootFilesystem.orValue(false)`,
    message: 'securityContext.readOnlyRootFilesystem must be true',
    risk: 'programs of the image could be replaced',
  }),
  eachContainer({
    name: 'container-non-root',
    permits: `${effective('runAsNonRoot', 'false')} && ${effective('runAsUser', '0')} > 0 && ${effective('runAsGroup', '0')} > 0`,
    message:
      'securityContext must set runAsNonRoot: true, and runAsUser and runAsGroup other than 0 (here or for the pod)',
    risk: 'the container could act as root towards the kernel and mounted files',
  }),
  eachContainer({
    name: 'container-user',
    permits: `c.name != '${CONTAINERS.agentHost}' && c.name != '${CONTAINERS.toolbox}' || ${effective('runAsUser', '0')} == (c.name == '${CONTAINERS.agentHost}' ? ${POD_USERS.agentHost} : ${POD_USERS.toolbox}) && ${effective('runAsGroup', '0')} == ${POD_USERS.group}`,
    message: `${CONTAINERS.agentHost} must run as ${POD_USERS.agentHost}:${POD_USERS.group} and ${CONTAINERS.toolbox} as ${POD_USERS.toolbox}:${POD_USERS.group} (runAsUser, runAsGroup)`,
    risk: 'commands of the agent could read AgentHost’s files and memory',
  }),
  eachContainer({
    name: 'container-seccomp',
    permits: `${effective('seccompProfile', '{}')}.?type.orValue('') == 'RuntimeDefault'`,
    message: 'securityContext.seccompProfile.type must be RuntimeDefault (here or for the pod)',
    risk: 'commands could use system calls that no program here needs',
  }),
  eachContainer({
    name: 'container-security-fields',
    permits: `dyn(${sc}.orValue({})).all(k, k in ${list(FIELDS)})`,
    message: `securityContext may only have ${FIELDS.join(', ')}: remove all others, such as procMount, seLinuxOptions and windowsOptions`,
    risk: 'a field that these rules do not check could weaken the isolation',
  }),
  {
    name: 'pod-security-fields',
    expression: `${POD_CONTEXT}.all(k, k in ${list(POD_FIELDS)})`,
    offenders: `${POD_CONTEXT}.filter(k, !(k in ${list(POD_FIELDS)})).map(k, 'spec.securityContext.' + string(k))`,
    message: `is not among ${POD_FIELDS.join(', ')}: remove it`,
    risk: 'a field that these rules do not check could weaken the isolation',
  },
  {
    name: 'pod-fs-group',
    expression: `object.spec.?securityContext.?fsGroup.orValue(0) == ${POD_USERS.group} && object.spec.?securityContext.?fsGroupChangePolicy.orValue('') == 'OnRootMismatch'`,
    message: `spec.securityContext must set fsGroup: ${POD_USERS.group} and fsGroupChangePolicy: OnRootMismatch`,
    risk: 'one of the pod’s two users could not use the volumes, or another group could',
  },
]
