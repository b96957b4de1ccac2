/** A Go module whose archive contains schemas. Go verifies the archive against its checksum database. */
export interface Source {
  readonly module: string
  readonly version: string
}

/**
 * Fields that are imported, by the path of their parent. A path without an entry keeps all its fields. Array items
 * add nothing to a path. Whole pod and routing schemas would be 50,000 lines.
 */
export type FieldLists = Readonly<Record<string, readonly string[]>>

export interface CustomKinds extends Source {
  /** File name of the generated module. */
  readonly name: string
  /** CRD files below the module's root. */
  readonly files: readonly string[]
  /** The version of the kinds that the tree uses. Other versions of a CRD are not imported. */
  readonly apiVersion: string
  /** Replaces the API group of the CRD. @default the group in the file */
  readonly group?: string
  /** Paths begin with the kind: `Gateway.spec.listeners`. */
  readonly fields: FieldLists
}

/** The newest Kubernetes version that the tree is tested on. */
export const KUBERNETES: Source = { module: 'k8s.io/kubernetes', version: 'v1.37.0' }
export const KUBERNETES_SCHEMA = 'api/openapi-spec/swagger.json'

/** Built-in kinds of the tree, except those that cdk8s-plus models well. */
export const KUBERNETES_KINDS = [
  'io.k8s.api.admissionregistration.v1.ValidatingAdmissionPolicy',
  'io.k8s.api.admissionregistration.v1.ValidatingAdmissionPolicyBinding',
  'io.k8s.api.apps.v1.Deployment',
  'io.k8s.api.autoscaling.v2.HorizontalPodAutoscaler',
  'io.k8s.api.batch.v1.Job',
  'io.k8s.api.core.v1.ConfigMap',
  'io.k8s.api.core.v1.LimitRange',
  'io.k8s.api.core.v1.Namespace',
  'io.k8s.api.core.v1.ResourceQuota',
  'io.k8s.api.core.v1.Service',
  'io.k8s.api.networking.v1.NetworkPolicy',
  'io.k8s.api.node.v1.RuntimeClass',
  'io.k8s.api.policy.v1.PodDisruptionBudget',
  'io.k8s.api.rbac.v1.Role',
  'io.k8s.api.rbac.v1.RoleBinding',
  'io.k8s.api.scheduling.v1.PriorityClass',
  'io.k8s.api.storage.v1.StorageClass',
] as const

const POD_SPEC = [
  'affinity',
  'automountServiceAccountToken',
  'containers',
  'dnsConfig',
  'dnsPolicy',
  'enableServiceLinks',
  'hostIPC',
  'hostNetwork',
  'hostPID',
  'hostUsers',
  'imagePullSecrets',
  'nodeSelector',
  'priorityClassName',
  'restartPolicy',
  'runtimeClassName',
  'securityContext',
  'serviceAccountName',
  'setHostnameAsFQDN',
  'shareProcessNamespace',
  'terminationGracePeriodSeconds',
  'tolerations',
  'topologySpreadConstraints',
  'volumes',
]

/** No `hostPath`: no workload of the tree mounts a folder of its node. */
const VOLUME = ['name', 'configMap', 'emptyDir', 'projected', 'secret']

const METADATA = ['name', 'namespace', 'labels', 'annotations']

/** Paths begin with the last part of the definition's name. */
export const KUBERNETES_FIELDS: FieldLists = {
  ObjectMeta: METADATA,
  PodSpec: POD_SPEC,
  Volume: VOLUME,
  Affinity: ['nodeAffinity'],
  Lifecycle: ['preStop'],
  LifecycleHandler: ['sleep'],
  Probe: [
    'httpGet',
    'periodSeconds',
    'failureThreshold',
    'successThreshold',
    'timeoutSeconds',
    'initialDelaySeconds',
  ],
  StorageClass: [
    'apiVersion',
    'kind',
    'metadata',
    'provisioner',
    'parameters',
    'reclaimPolicy',
    'volumeBindingMode',
    'allowVolumeExpansion',
  ],
}

export const CUSTOM_KINDS: readonly CustomKinds[] = [
  {
    name: 'agent-sandbox',
    module: 'sigs.k8s.io/agent-sandbox',
    version: 'v1.0.3',
    files: [
      'k8s/crds/extensions.agents.x-k8s.io_sandboxtemplates.yaml',
      'k8s/crds/extensions.agents.x-k8s.io_sandboxwarmpools.yaml',
    ],
    apiVersion: 'v1beta1',
    fields: {
      'SandboxTemplate.spec.podTemplate.spec': POD_SPEC,
      'SandboxTemplate.spec.podTemplate.spec.volumes': VOLUME,
      'SandboxTemplate.spec.podTemplate.spec.affinity': ['nodeAffinity'],
      'SandboxTemplate.spec.podTemplate.spec.containers': [
        'name',
        'image',
        'imagePullPolicy',
        'command',
        'args',
        'workingDir',
        'env',
        'ports',
        'resources',
        'securityContext',
        'startupProbe',
        'readinessProbe',
        'livenessProbe',
        'volumeMounts',
      ],
      'SandboxTemplate.spec.podTemplate.spec.containers.startupProbe': probe(),
      'SandboxTemplate.spec.podTemplate.spec.containers.readinessProbe': probe(),
      'SandboxTemplate.spec.podTemplate.spec.containers.livenessProbe': probe(),
      'SandboxTemplate.spec.volumeClaimTemplates.spec': ['accessModes', 'resources', 'storageClassName'],
    },
  },
  {
    name: 'cilium',
    module: 'github.com/cilium/cilium',
    version: 'v1.20.2',
    files: ['pkg/k8s/apis/cilium.io/client/crds/v2/ciliumnetworkpolicies.yaml'],
    apiVersion: 'v2',
    fields: {
      CiliumNetworkPolicy: ['metadata', 'spec'],
      'CiliumNetworkPolicy.spec': ['endpointSelector', 'egress', 'egressDeny', 'ingress', 'ingressDeny'],
      'CiliumNetworkPolicy.spec.egress': ['toCIDRSet', 'toEndpoints', 'toEntities', 'toFQDNs', 'toPorts'],
      'CiliumNetworkPolicy.spec.egress.toPorts': ['ports', 'rules'],
      'CiliumNetworkPolicy.spec.egress.toPorts.rules': ['dns'],
      'CiliumNetworkPolicy.spec.egressDeny': ['toCIDRSet', 'toEndpoints', 'toEntities', 'toPorts'],
      'CiliumNetworkPolicy.spec.ingress': ['fromCIDRSet', 'fromEndpoints', 'fromEntities', 'toPorts'],
      'CiliumNetworkPolicy.spec.ingress.toPorts': ['ports'],
      'CiliumNetworkPolicy.spec.ingressDeny': ['fromCIDRSet', 'fromEndpoints', 'fromEntities', 'toPorts'],
    },
  },
  {
    name: 'gateway-api',
    module: 'sigs.k8s.io/gateway-api',
    version: 'v1.6.1',
    files: [
      'config/crd/standard/gateway.networking.k8s.io_gateways.yaml',
      'config/crd/standard/gateway.networking.k8s.io_httproutes.yaml',
    ],
    apiVersion: 'v1',
    fields: {
      'Gateway.spec': ['gatewayClassName', 'listeners'],
      'HTTPRoute.spec.rules': ['name', 'matches', 'filters', 'backendRefs', 'timeouts'],
      'HTTPRoute.spec.rules.filters': ['type', 'requestRedirect'],
      'HTTPRoute.spec.rules.backendRefs': ['group', 'kind', 'name', 'namespace', 'port', 'weight'],
    },
  },
  {
    name: 'prometheus-operator',
    module: 'github.com/prometheus-operator/prometheus-operator',
    version: 'v0.85.0',
    files: [
      'example/prometheus-operator-crd/monitoring.coreos.com_podmonitors.yaml',
      'example/prometheus-operator-crd/monitoring.coreos.com_prometheusrules.yaml',
    ],
    apiVersion: 'v1',
    fields: podMonitor(),
  },
  // Azure's collector reads PodMonitors in its own group. Its CRD has a subset of the operator's fields, and these
  // are in both (ama-metrics-podmonitor-crd.yaml in github.com/Azure/prometheus-collector).
  {
    name: 'azure-monitor',
    module: 'github.com/prometheus-operator/prometheus-operator',
    version: 'v0.85.0',
    files: ['example/prometheus-operator-crd/monitoring.coreos.com_podmonitors.yaml'],
    apiVersion: 'v1',
    group: 'azmonitoring.coreos.com',
    fields: podMonitor(),
  },
  {
    name: 'argo-cd',
    module: 'github.com/argoproj/argo-cd/v3',
    version: 'v3.5.7',
    files: ['manifests/crds/application-crd.yaml', 'manifests/crds/appproject-crd.yaml'],
    apiVersion: 'v1alpha1',
    fields: {
      Application: ['metadata', 'spec'],
      'Application.spec': ['project', 'source', 'destination', 'syncPolicy'],
      'Application.spec.source': ['repoURL', 'targetRevision', 'path'],
      'AppProject.spec': [
        'sourceRepos',
        'destinations',
        'clusterResourceWhitelist',
        'namespaceResourceWhitelist',
      ],
    },
  },
  {
    name: 'flux-source',
    module: 'github.com/fluxcd/source-controller',
    version: 'v1.9.6',
    files: ['config/crd/bases/source.toolkit.fluxcd.io_gitrepositories.yaml'],
    apiVersion: 'v1',
    fields: { 'GitRepository.spec': ['interval', 'url', 'ref', 'secretRef', 'verify'] },
  },
  {
    name: 'flux-kustomize',
    module: 'github.com/fluxcd/kustomize-controller',
    version: 'v1.9.6',
    files: ['config/crd/bases/kustomize.toolkit.fluxcd.io_kustomizations.yaml'],
    apiVersion: 'v1',
    fields: {
      'Kustomization.spec': [
        'interval',
        'retryInterval',
        'timeout',
        'prune',
        'wait',
        'sourceRef',
        'path',
        'dependsOn',
      ],
    },
  },
]

function probe(): readonly string[] {
  return ['httpGet', 'periodSeconds', 'failureThreshold', 'successThreshold', 'timeoutSeconds']
}

function podMonitor(): FieldLists {
  return {
    'PodMonitor.spec': [
      'selector',
      'podMetricsEndpoints',
      'labelLimit',
      'labelNameLengthLimit',
      'labelValueLengthLimit',
    ],
    'PodMonitor.spec.podMetricsEndpoints': ['port', 'path', 'interval'],
  }
}
