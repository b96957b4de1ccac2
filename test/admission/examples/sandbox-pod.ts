import type { KubeObject } from '../../../devcluster/client/kube-object.ts'
import { type AdmissionSpace, DIGEST } from '../space.ts'

const context = (runAsUser: number) => ({
  runAsUser,
  runAsGroup: 1000,
  runAsNonRoot: true,
  privileged: false,
  allowPrivilegeEscalation: false,
  readOnlyRootFilesystem: true,
  capabilities: { drop: ['ALL'] },
  seccompProfile: { type: 'RuntimeDefault' },
})
const SIZE = { cpu: '100m', memory: '64Mi', 'ephemeral-storage': '64Mi' }
const probe = { httpGet: { path: '/healthz', port: 8088 } }
const folder = (name: string) => ({ name, emptyDir: { sizeLimit: '16Mi' } })
const token = (name: string, audience: string) => ({
  name,
  projected: { sources: [{ serviceAccountToken: { audience, expirationSeconds: 600, path: 'token' } }] },
})

/** A sandbox as strict as the rules want it, of class `agent`, with every field set that a rule is about. */
export function aSandboxPod({ namespace, parameters }: AdmissionSpace, name = 'sandbox'): KubeObject {
  const [key, value] = parameters.nodeLabel.split('=')
  const terms = [{ matchExpressions: [{ key, operator: 'In', values: [value] }] }]
  const { runtimeClass, agentHostRepository, toolboxRepository } = parameters
  return {
    apiVersion: 'v1',
    kind: 'Pod',
    metadata: {
      name,
      namespace,
      labels: { 'agentweaver.io/class': 'agent', 'app.kubernetes.io/name': 'sandbox' },
      annotations: { 'agents.x-k8s.io/propagated-labels': 'agentweaver.io/class' },
    },
    spec: {
      ...(runtimeClass && { runtimeClassName: runtimeClass }),
      ...(key && {
        affinity: {
          nodeAffinity: { requiredDuringSchedulingIgnoredDuringExecution: { nodeSelectorTerms: terms } },
        },
      }),
      ...(parameters.tolerations.split(',').includes('sandbox') && {
        tolerations: [{ key: 'sandbox', operator: 'Equal', value: 'kata', effect: 'NoSchedule' }],
      }),
      schedulerName: 'default-scheduler',
      restartPolicy: 'Never',
      terminationGracePeriodSeconds: 5,
      dnsPolicy: parameters.dnsPolicy,
      dnsConfig: { options: [{ name: 'ndots', value: '1' }] },
      serviceAccountName: parameters.agentAccount,
      automountServiceAccountToken: false,
      enableServiceLinks: false,
      securityContext: {
        runAsNonRoot: true,
        runAsGroup: 1000,
        fsGroup: 1000,
        fsGroupChangePolicy: 'OnRootMismatch',
        seccompProfile: { type: 'RuntimeDefault' },
      },
      containers: [agentHost(agentHostRepository), toolbox(toolboxRepository)],
      volumes: [
        folder('agent-host-home'),
        folder('agent-host-tmp'),
        folder('toolbox-home'),
        folder('toolbox-tmp'),
        { name: 'workspace', persistentVolumeClaim: { claimName: `workspace-${name}` } },
        { name: 'executor-keys', configMap: { name: parameters.executorKeys } },
        token('identity-token', 'agentweaver-api'),
        token('azure-token', 'api://AzureADTokenExchange'),
      ],
    },
  }
}

function agentHost(repository: string) {
  return {
    name: 'agent-host',
    image: repository + DIGEST,
    workingDir: '/home/agent-host',
    env: [{ name: 'AGENT_HOST_INSTANCE_ID', valueFrom: { fieldRef: { fieldPath: 'metadata.uid' } } }],
    ports: [{ name: 'a2a', containerPort: 8088 }],
    resources: { requests: SIZE, limits: SIZE },
    securityContext: context(1001),
    startupProbe: probe,
    readinessProbe: probe,
    livenessProbe: probe,
    volumeMounts: [
      { name: 'agent-host-home', mountPath: '/home/agent-host' },
      { name: 'agent-host-tmp', mountPath: '/tmp' },
      { name: 'executor-keys', mountPath: '/etc/agentweaver/keys', readOnly: true },
      { name: 'identity-token', mountPath: '/var/run/secrets/agentweaver/identity', readOnly: true },
      { name: 'azure-token', mountPath: '/var/run/secrets/azure/tokens', readOnly: true },
    ],
  }
}

function toolbox(repository: string) {
  return {
    name: 'toolbox',
    image: repository + DIGEST,
    workingDir: '/workspace',
    resources: { requests: SIZE, limits: SIZE },
    securityContext: context(1000),
    volumeMounts: [
      { name: 'toolbox-home', mountPath: '/home/sandbox' },
      { name: 'toolbox-tmp', mountPath: '/tmp' },
      { name: 'workspace', mountPath: '/workspace' },
    ],
  }
}

/** A third container: an init container, or an ephemeral container for debugging. */
export function anotherContainer(space: AdmissionSpace, name: string) {
  return {
    name,
    image: space.parameters.toolboxRepository + DIGEST,
    resources: { requests: SIZE, limits: SIZE },
    securityContext: context(1000),
  }
}

/** The same without what ephemeral containers cannot have. */
export function aDebugContainer(space: AdmissionSpace, name = 'debug') {
  const { resources: _resources, ...rest } = anotherContainer(space, name)
  return rest
}
