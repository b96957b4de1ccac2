import type { AdmissionSpace } from '../space.ts'
import { but, create, type Draft, type Examples, type RuleExample } from './attempt.ts'
import { anotherContainer, aSandboxPod } from './sandbox-pod.ts'

/** The strict pod passes; the same pod with one weakness is refused. */
const weakened =
  (weaken: (pod: Draft, space: AdmissionSpace) => void) =>
  (space: AdmissionSpace): RuleExample => ({
    passes: create('controller', aSandboxPod(space)),
    fails: create(
      'controller',
      but(aSandboxPod(space), (pod) => weaken(pod, space)),
    ),
  })
const inSpec = (fields: Draft) => weakened(({ spec }) => Object.assign(spec, fields))
const inPodContext = (fields: Draft) => weakened(({ spec }) => Object.assign(spec.securityContext, fields))
/** The toolbox, which runs what the agent wants, is the one that is weakened. */
const inToolbox = (edit: (container: Draft) => void) => weakened(({ spec }) => edit(spec.containers[1]))
const inContext = (fields: Draft) =>
  inToolbox(({ securityContext }) => Object.assign(securityContext, fields))
const volume = (weaken: (volumes: Draft[]) => void) => weakened(({ spec }) => weaken(spec.volumes))
const named = (volumes: Draft[], name: string): Draft => volumes.find((entry) => entry['name'] === name) ?? {}
const source = (volumes: Draft[]): Draft =>
  named(volumes, 'identity-token')['projected'].sources[0].serviceAccountToken

export const SHAPE_EXAMPLES: Examples = {
  'pod-runtime-class': weakened(({ spec }) => delete spec.runtimeClassName),
  'pod-node-affinity': weakened(({ spec }) => {
    const required = spec.affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution
    required.nodeSelectorTerms.push({ matchExpressions: [{ key: 'any', operator: 'Exists' }] })
  }),
  'pod-affinity': weakened(({ spec }) => {
    const requiredDuringSchedulingIgnoredDuringExecution = [
      { topologyKey: 'kubernetes.io/hostname', labelSelector: {} },
    ]
    spec.affinity.podAffinity = { requiredDuringSchedulingIgnoredDuringExecution }
  }),
  'pod-tolerations': inSpec({ tolerations: [{ operator: 'Exists' }] }),
  'pod-node-name': inSpec({ nodeName: 'kwok-0' }),
  'pod-scheduler': inSpec({ schedulerName: 'mine' }),
  'pod-priority': inSpec({ priorityClassName: 'system-node-critical' }),
  'pod-host-network': inSpec({ hostNetwork: true }),
  'pod-host-pid': inSpec({ hostPID: true }),
  'pod-host-ipc': inSpec({ hostIPC: true }),
  'pod-share-process-namespace': inSpec({ shareProcessNamespace: true }),
  'pod-sysctls': inPodContext({ sysctls: [{ name: 'kernel.shm_rmid_forced', value: '1' }] }),
  'pod-dns': inSpec({ dnsConfig: { nameservers: ['203.0.113.53'] } }),
  'pod-restart-policy': inSpec({ restartPolicy: 'Always' }),
  'pod-termination-grace': inSpec({ terminationGracePeriodSeconds: 31 }),
  'pod-class': weakened(({ metadata }) => delete metadata.labels['agentweaver.io/class']),
  'pod-service-account': inSpec({ serviceAccountName: 'default' }),
  'pod-automount': inSpec({ automountServiceAccountToken: true }),
  'pod-service-links': inSpec({ enableServiceLinks: true }),
  'token-source': volume((volumes) => {
    named(volumes, 'identity-token')['projected'].sources.push({ secret: { name: 'any' } })
  }),
  'token-audience': volume((volumes) => {
    source(volumes)['audience'] = 'https://kubernetes.default.svc.cluster.local'
  }),
  'token-lifetime': volume((volumes) => {
    source(volumes)['expirationSeconds'] = 86_400
  }),
  'token-container': inToolbox(({ volumeMounts }) => {
    volumeMounts.push({ name: 'azure-token', mountPath: '/var/run/secrets/azure/tokens', readOnly: true })
  }),
  'container-privileged': inContext({ privileged: true, allowPrivilegeEscalation: true }),
  'container-escalation': inContext({ allowPrivilegeEscalation: true }),
  'container-capabilities': inContext({ capabilities: { drop: ['ALL'], add: ['SYS_ADMIN'] } }),
  'container-read-only-root': inContext({ readOnlyRootFilesystem: false }),
  'container-non-root': weakened(({ spec }, space) => {
    const init = anotherContainer(space, 'setup')
    spec.initContainers = [
      { ...init, securityContext: { ...init.securityContext, runAsNonRoot: false, runAsUser: 0 } },
    ]
  }),
  'container-user': inContext({ runAsUser: 1001 }),
  'container-seccomp': inContext({ seccompProfile: { type: 'Unconfined' } }),
  'container-security-fields': inContext({ seLinuxOptions: { type: 'spc_t' } }),
  'pod-security-fields': inPodContext({ supplementalGroups: [0] }),
  'pod-fs-group': inPodContext({ fsGroup: 0 }),
  'pod-fields': inSpec({ hostAliases: [{ ip: '203.0.113.1', hostnames: ['api.github.com'] }] }),
  'container-names': weakened(({ spec }, space) => spec.containers.push(anotherContainer(space, 'sidecar'))),
  'container-fields': inToolbox((container) => {
    container['envFrom'] = [{ secretRef: { name: 'any' } }]
  }),
  'container-image': inToolbox((container) => {
    container['image'] = 'registry.example/toolbox:latest'
  }),
  'container-working-dir': inToolbox((container) => {
    container['workingDir'] = '/proc/self/fd/8'
  }),
  'container-env': inToolbox((container) => {
    container['env'] = [{ name: 'A', valueFrom: { secretKeyRef: { name: 'any', key: 'any' } } }]
  }),
  'container-limits': inToolbox(({ resources }) => {
    delete resources.limits['ephemeral-storage']
  }),
  'container-memory': inToolbox(({ resources }) => {
    resources.requests = { memory: '1Mi' }
  }),
  'container-devices': inToolbox(({ resources }) => {
    resources.limits = { ...resources.limits, 'example.com/gpu': '1' }
    resources.requests = { ...resources.requests, 'example.com/gpu': '1' }
  }),
  'container-host-port': inToolbox((container) => {
    container['ports'] = [{ containerPort: 3000, hostPort: 3000 }]
  }),
  'container-probes': weakened(({ spec }) => delete spec.containers[0].livenessProbe),
  'container-probe-host': weakened(({ spec }) => {
    spec.containers[0].livenessProbe = { httpGet: { path: '/', port: 80, host: '169.254.169.254' } }
  }),
  'volume-kind': volume((volumes) => volumes.push({ name: 'host', hostPath: { path: '/run/containerd' } })),
  'volume-fields': volume((volumes) => {
    named(volumes, 'toolbox-tmp')['emptyDir'].medium = 'HugePages'
  }),
  'volume-size': volume((volumes) => {
    named(volumes, 'toolbox-tmp')['emptyDir'] = {}
  }),
  'volume-config-map': volume((volumes) => {
    named(volumes, 'executor-keys')['configMap'] = { name: 'other-keys' }
  }),
  'volume-claim': volume((volumes) => {
    named(volumes, 'workspace')['persistentVolumeClaim'] = { claimName: 'workspace-other' }
  }),
  'mount-fields': inToolbox(({ volumeMounts }) => {
    volumeMounts[0].subPath = 'inner'
  }),
  'mount-path': inToolbox(({ volumeMounts }) => {
    volumeMounts[0].mountPath = '/usr/local/bin'
  }),
  'mount-read-only': weakened(({ spec }) => delete spec.containers[0].volumeMounts[2].readOnly),
  'workspace-container': weakened(({ spec }) => {
    spec.containers[0].volumeMounts.push({ name: 'workspace', mountPath: '/home/workspace' })
  }),
  'keys-container': inToolbox(({ volumeMounts }) => {
    volumeMounts.push({ name: 'executor-keys', mountPath: '/etc/agentweaver/keys', readOnly: true })
  }),
  'pod-kata-annotations': weakened(({ metadata }) => {
    metadata.annotations['io.katacontainers.config.hypervisor.kernel_params'] = 'agent.log=debug'
  }),
  'pod-annotations': weakened(({ metadata }) => {
    metadata.annotations['dev.gvisor.flag.network'] = 'host'
  }),
  'pod-labels': weakened(({ metadata }) => {
    metadata.labels['azure.workload.identity/use'] = 'true'
  }),
}
