import { KATA_NODE_LABEL, KATA_TAINT, RUNTIME_CLASSES } from '../../contracts/labels.ts'
import { CONTAINERS, EXECUTOR_KEYS, names, type SandboxKind, WORKSPACE_MOUNT } from '../../contracts/names.ts'
import { POD_HOMES, POD_START_LIMIT_MS, POD_USERS } from '../../contracts/pod.ts'
import { AGENT_HOST_PORT } from '../../contracts/ports.ts'
import { AGENT_HOST_ROUTES } from '../../contracts/routes.ts'
import { ephemeralLimits } from '../environment/pod-needs.ts'
import type { Environment } from '../environment/schema.ts'
import type { VaultReader } from '../environment/vault-reader.ts'
import {
  IntOrString,
  type NodeSelectorTerm,
  type Probe,
  type SecurityContext,
  type Volume,
} from '../imports/k8s.js'
import { clusterNames } from '../workloads.ts'
import { containerResources, mib } from './quantities.ts'
import { agentHostEnv, toolboxEnv } from './sandbox-env.ts'
import type { PodSpec } from './sandbox-pool.ts'
import { exchangeToken, identityToken } from './token-volumes.ts'

/** Short, because the API deletes a pod only after it needs nothing more from it. */
const GRACE_SECONDS = 10

/** The workspace volume, which only the toolbox mounts. */
export const WORKSPACE_VOLUME = 'workspace'

/**
 * The sandbox pod: two containers under two users that share only the network. `agent-host` holds the
 * credentials and no workspace; `toolbox` holds the workspace and no credentials. `azure`: AgentHost reads the vault of
 * users' tokens.
 */
export function sandboxPodSpec(environment: Environment, kind: SandboxKind, azure?: VaultReader): PodSpec {
  const { serviceAccounts } = names(environment.slice)
  return {
    ...placement(environment),
    priorityClassName: clusterNames().priorityClasses.sandbox,
    serviceAccountName: kind === 'agent' ? serviceAccounts.agentHost : serviceAccounts.commandHost,
    automountServiceAccountToken: false,
    enableServiceLinks: false,
    // A restarted container could take over the port of the one that ended.
    restartPolicy: 'Never',
    terminationGracePeriodSeconds: GRACE_SECONDS,
    hostNetwork: false,
    hostPid: false,
    hostIpc: false,
    shareProcessNamespace: false,
    ...resolution(environment),
    // No group here: containerd rejects a pod-level group without a user, and each container sets its own.
    securityContext: {
      runAsNonRoot: true,
      fsGroup: POD_USERS.group,
      fsGroupChangePolicy: 'OnRootMismatch',
      seccompProfile: { type: 'RuntimeDefault' },
    },
    // The order matters: the host must listen before the toolbox connects.
    containers: [agentHost(environment, kind, azure), toolbox(environment, kind)],
    volumes: volumes(environment, kind, azure),
  }
}

/**
 * Required, not preferred: without a matching node the pod stays pending instead of running with weaker
 * isolation.
 */
function placement({
  isolation,
}: Environment): Pick<PodSpec, 'runtimeClassName' | 'affinity' | 'tolerations'> {
  if (isolation === 'none') return {}
  const runtimeClassName = RUNTIME_CLASSES[isolation].name
  if (isolation === 'gvisor') return { runtimeClassName }
  const { key, value } = KATA_NODE_LABEL
  const nodeSelectorTerms: NodeSelectorTerm[] = [
    { matchExpressions: [{ key, operator: 'In', values: [value] }] },
  ]
  return {
    runtimeClassName,
    affinity: { nodeAffinity: { requiredDuringSchedulingIgnoredDuringExecution: { nodeSelectorTerms } } },
    tolerations: [{ ...KATA_TAINT, operator: 'Equal' }],
  }
}

/**
 * DNS is available only where FQDN rules filter it. `ndots: 1` prevents search domains: they would turn each
 * allowed name into several names that the rules reject.
 */
function resolution({ egress }: Environment): Pick<PodSpec, 'dnsPolicy' | 'dnsConfig'> {
  if (egress.mode === 'fqdn') {
    return { dnsPolicy: 'ClusterFirst', dnsConfig: { options: [{ name: 'ndots', value: '1' }] } }
  }
  return { dnsPolicy: 'None', dnsConfig: { nameservers: ['127.0.0.1'] } }
}

function securityContext(runAsUser: number): SecurityContext {
  return {
    runAsUser,
    runAsGroup: POD_USERS.group,
    runAsNonRoot: true,
    privileged: false,
    allowPrivilegeEscalation: false,
    readOnlyRootFilesystem: true,
    capabilities: { drop: ['ALL'] },
    seccompProfile: { type: 'RuntimeDefault' },
  }
}

type Container = PodSpec['containers'][number]

function agentHost(environment: Environment, kind: SandboxKind, azure?: VaultReader): Container {
  const { images, sizes } = environment
  const pool = sizes.sandboxes[kind]
  const ephemeralMib = ephemeralLimits(pool, sizes.sandboxes.workspace).agentHost
  return {
    name: CONTAINERS.agentHost,
    image: images.agentHost,
    imagePullPolicy: 'IfNotPresent',
    env: agentHostEnv(environment, kind, azure),
    ports: [{ name: 'a2a', containerPort: AGENT_HOST_PORT, protocol: 'TCP' }],
    resources: containerResources({ ...pool.agentHost, ephemeralMib }),
    securityContext: securityContext(POD_USERS.agentHost),
    ...probes(),
    volumeMounts: [
      { name: 'agent-host-home', mountPath: POD_HOMES.agentHost },
      { name: 'agent-host-tmp', mountPath: '/tmp' },
      // Mounts the whole folder, because a `subPath` mount never receives a rotated key.
      { name: 'executor-keys', mountPath: EXECUTOR_KEYS.mountPath, readOnly: true },
      ...tokens(azure).map(({ mount }) => mount),
    ],
  }
}

/** The endpoint covers both runners: 503 until both are connected, then 200, also during configuration. */
function probes(): Pick<Container, 'startupProbe' | 'readinessProbe' | 'livenessProbe'> {
  const port = IntOrString.fromNumber(AGENT_HOST_PORT)
  const probe = (periodSeconds: number, failureThreshold: number): Probe => ({
    httpGet: { path: AGENT_HOST_ROUTES.healthz, port, scheme: 'HTTP' },
    periodSeconds,
    failureThreshold,
    successThreshold: 1,
    timeoutSeconds: 2,
  })
  return {
    // Allows for the time in which the other container's image is pulled.
    startupProbe: probe(1, POD_START_LIMIT_MS / 1000),
    readinessProbe: probe(1, 3),
    livenessProbe: probe(10, 6),
  }
}

function toolbox(environment: Environment, kind: SandboxKind): Container {
  const { images, sizes } = environment
  const pool = sizes.sandboxes[kind]
  const ephemeralMib = ephemeralLimits(pool, sizes.sandboxes.workspace).toolbox
  return {
    name: CONTAINERS.toolbox,
    image: images.toolbox,
    imagePullPolicy: 'IfNotPresent',
    workingDir: WORKSPACE_MOUNT,
    env: toolboxEnv(environment, pool.volumes),
    resources: containerResources({ ...pool.toolbox, ephemeralMib }),
    securityContext: securityContext(POD_USERS.toolbox),
    volumeMounts: [
      { name: 'toolbox-home', mountPath: POD_HOMES.toolbox },
      { name: 'toolbox-tmp', mountPath: '/tmp' },
      { name: WORKSPACE_VOLUME, mountPath: WORKSPACE_MOUNT },
    ],
  }
}

/** Token volumes of `agent-host`. */
const tokens = (azure: VaultReader | undefined) => [identityToken(), ...(azure ? [exchangeToken()] : [])]

function volumes(environment: Environment, kind: SandboxKind, azure?: VaultReader): Volume[] {
  const { workspace, [kind]: pool } = environment.sizes.sandboxes
  const { tmpMib, homeMib, workspaceMib } = pool.volumes
  const folder = (name: string, sizeMib: number): Volume => ({ name, emptyDir: { sizeLimit: mib(sizeMib) } })
  const keys = { name: names(environment.slice).executorKeys, defaultMode: 0o444 }
  return [
    folder('agent-host-home', homeMib),
    folder('agent-host-tmp', tmpMib),
    folder('toolbox-home', homeMib),
    folder('toolbox-tmp', tmpMib),
    // With `volume`, the template's volume claim provides a volume of the same name.
    ...(workspace === 'emptyDir' ? [folder(WORKSPACE_VOLUME, workspaceMib)] : []),
    { name: 'executor-keys', configMap: keys },
    ...tokens(azure).map(({ volume }) => volume),
  ]
}
