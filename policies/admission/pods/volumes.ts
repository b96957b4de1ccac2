import { CONTAINERS, EXECUTOR_KEYS, WORKSPACE_MOUNT } from '../../../contracts/names.ts'
import { eachContainer, list, text } from '../cel.ts'
import type { AdmissionRule } from '../rule.ts'

const FIELDS = {
  configMap: ['name', 'defaultMode'],
  emptyDir: ['sizeLimit'],
  persistentVolumeClaim: ['claimName', 'readOnly'],
  projected: ['sources', 'defaultMode'],
}
const hasKnownFields = Object.entries(FIELDS)
  .map(([kind, fields]) => `(!has(v.${kind}) || v.${kind}.all(k, k in ${list(fields)}))`)
  .join(' && ')
const MOUNT_FIELDS = ['mountPath', 'name', 'readOnly']
const KINDS = Object.keys(FIELDS)
const NAMED = list(['name', ...KINDS])
const WRITABLE_PATHS = `^(${WORKSPACE_MOUNT}|/tmp|/home/[a-z][a-z0-9-]*)$`
const isWritable = (mount: string) =>
  `variables.volumes.exists(v, v.name == ${mount}.name && (has(v.emptyDir) || has(v.persistentVolumeClaim)))`
const mounts = 'c.?volumeMounts.orValue([])'

/** Volumes that a sandbox may mount. */
export const VOLUMES: readonly AdmissionRule[] = [
  {
    name: 'volume-kind',
    expression: `variables.volumes.all(v, v.all(k, k in ${NAMED}))`,
    offenders: `variables.volumes.filter(v, !v.all(k, k in ${NAMED})).map(v, 'volume ' + string(v.name) + ' (' + v.filter(k, !(k in ${NAMED})).map(k, string(k)).join(', ') + ')')`,
    message: `spec.volumes[] may only be ${KINDS.join(', ')}: no hostPath, Secret, image, network or CSI volume`,
    risk: 'the sandbox could read files and sockets of the node, Secrets, or other storage',
  },
  {
    name: 'volume-fields',
    expression: `variables.volumes.all(v, ${hasKnownFields})`,
    offenders: `variables.volumes.filter(v, !(${hasKnownFields})).map(v, 'volume ' + string(v.name))`,
    message: `spec.volumes[] may only have ${Object.entries(FIELDS)
      .map(([kind, fields]) => `${kind}.{${fields.join(', ')}}`)
      .join(', ')}`,
    risk: 'a volume could take memory or huge pages of the node, or set a field that these rules do not check',
  },
  {
    name: 'volume-size',
    expression: 'variables.volumes.all(v, !has(v.emptyDir) || has(v.emptyDir.sizeLimit))',
    offenders:
      "variables.volumes.filter(v, has(v.emptyDir) && !has(v.emptyDir.sizeLimit)).map(v, 'volume ' + string(v.name))",
    message: 'spec.volumes[].emptyDir must have a sizeLimit',
    risk: 'one run could fill the disk of its node',
  },
  {
    name: 'volume-config-map',
    expression:
      "variables.volumes.all(v, !has(v.configMap) || v.configMap.?name.orValue('') == params.data.executorKeys)",
    offenders:
      "variables.volumes.filter(v, has(v.configMap) && v.configMap.?name.orValue('') != params.data.executorKeys).map(v, 'volume ' + string(v.name))",
    message: 'spec.volumes[].configMap may only be the ConfigMap with the executor’s public keys',
    risk: 'AgentHost could be made to trust other keys',
  },
  {
    name: 'volume-claim',
    expression:
      "variables.volumes.all(v, !has(v.persistentVolumeClaim) || v.persistentVolumeClaim.claimName == v.name + '-' + object.metadata.name)",
    offenders:
      "variables.volumes.filter(v, has(v.persistentVolumeClaim) && v.persistentVolumeClaim.claimName != v.name + '-' + object.metadata.name).map(v, 'volume ' + string(v.name))",
    message: 'spec.volumes[].persistentVolumeClaim must be the sandbox’s own claim, <volume>-<pod>',
    risk: 'the sandbox could read the files of another run',
  },
  eachContainer({
    name: 'mount-fields',
    permits: `${mounts}.all(m, m.all(k, k in ${list(MOUNT_FIELDS)}))`,
    message: `volumeMounts[] may only have ${MOUNT_FIELDS.join(', ')}: no mountPropagation, subPath or subPathExpr`,
    risk: 'the container could change mounts of the node, or leave its volume through a link in a subPath',
  }),
  eachContainer({
    name: 'mount-path',
    permits: `${mounts}.all(m, !${isWritable('m')} || m.mountPath.matches(${text(WRITABLE_PATHS)}))`,
    message: `a writable volume may only be mounted at ${WORKSPACE_MOUNT}, /tmp or /home/<name>`,
    risk: 'a volume could cover programs and configuration of the image',
  }),
  eachContainer({
    name: 'mount-read-only',
    permits: `${mounts}.all(m, ${isWritable('m')} || m.?readOnly.orValue(false) && (m.mountPath == ${text(EXECUTOR_KEYS.mountPath)} || m.mountPath.startsWith('/var/run/secrets/') && !m.mountPath.contains('..')))`,
    message: `keys and tokens must be mounted read-only, at ${EXECUTOR_KEYS.mountPath} or below /var/run/secrets`,
    risk: 'AgentHost’s keys and tokens could be replaced',
  }),
  eachContainer({
    name: 'workspace-container',
    permits: `c.name == '${CONTAINERS.toolbox}' || ${mounts}.all(m, m.mountPath != '${WORKSPACE_MOUNT}' && !variables.regular.exists(o, o.name == '${CONTAINERS.toolbox}' && ${isWritable('m')} && o.?volumeMounts.orValue([]).exists(n, n.name == m.name)))`,
    message: `a writable volume of ${CONTAINERS.toolbox}, such as ${WORKSPACE_MOUNT}, must not be mounted in another container`,
    risk: 'files that the agent wrote could reach AgentHost, which holds the credential',
  }),
  eachContainer({
    name: 'keys-container',
    permits: `c.name == '${CONTAINERS.agentHost}' || ${mounts}.all(m, !variables.volumes.exists(v, v.name == m.name && has(v.configMap)))`,
    message: `only ${CONTAINERS.agentHost} may mount the executor’s keys`,
    risk: 'the toolbox could read the public keys; they are not secret, but it does not need them',
  }),
]
