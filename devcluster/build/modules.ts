export const MODULE_NAMES = ['kubernetes', 'node', 'coredns', 'gvisor', 'cilium', 'crds'] as const
export type ModuleName = (typeof MODULE_NAMES)[number]

/** Files of a Go module that a cluster needs at run time: manifests, CRDs, BPF sources. */
export interface SharedFolder {
  readonly module: string
  readonly from: string
  readonly to: string
}

/** A Go module below `tools/`: the packages to build and the folders to copy. */
export interface ToolModule {
  readonly packages: readonly string[]
  readonly ldflags: readonly string[]
  /**
   * Additional names of a binary, for a program that selects its command by its name, or that is expected under another
   * name.
   */
  readonly links: Readonly<Record<string, readonly string[]>>
  readonly shared: readonly SharedFolder[]
  /** Seconds of a cold build on two idle cores. Used until a build on this machine has been measured. */
  readonly expectedSeconds: number
  /** Temporary disk space of the compiler, measured in a cold build and rounded up. */
  readonly scratchGiB: number
}

const KUBERNETES_VERSION = 'v1.37.0'
const AGENT_SANDBOX_VERSION = 'v1.0.3'

function kubernetesVersionFlags(): string[] {
  const stamps = [
    'gitVersion=v1.37.0',
    'gitMajor=1',
    'gitMinor=37',
    'gitTreeState=clean',
    'buildDate=2026-01-01T00:00:00Z',
  ]
  return ['k8s.io/component-base/version', 'k8s.io/client-go/pkg/version'].flatMap((place) =>
    [...stamps, `gitCommit=module-${KUBERNETES_VERSION}`].map((stamp) => `-X ${place}.${stamp}`),
  )
}

const CONTAINERD = 'github.com/containerd/containerd/v2'
const CNI = 'github.com/containernetworking/plugins/plugins'
const CILIUM = 'github.com/cilium/cilium'

export const TOOL_MODULES: Readonly<Record<ModuleName, ToolModule>> = {
  kubernetes: {
    packages: [
      './cmd/kube',
      'sigs.k8s.io/agent-sandbox/cmd/agent-sandbox-controller',
      'sigs.k8s.io/kwok/cmd/kwok',
    ],
    ldflags: [
      ...kubernetesVersionFlags(),
      `-X sigs.k8s.io/agent-sandbox/internal/version.gitVersion=${AGENT_SANDBOX_VERSION}`,
      '-X sigs.k8s.io/kwok/pkg/consts.Version=v0.8.0',
    ],
    links: {
      kube: [
        'etcd',
        'kube-apiserver',
        'kube-controller-manager',
        'kube-scheduler',
        'kubelet',
        'kube-proxy',
        'kubectl',
      ],
    },
    shared: [
      { module: 'sigs.k8s.io/agent-sandbox', from: 'k8s', to: 'agent-sandbox' },
      { module: 'sigs.k8s.io/kwok', from: 'kustomize/stage', to: 'kwok-stages' },
    ],
    expectedSeconds: 340,
    scratchGiB: 6,
  },
  node: {
    packages: [
      './cmd/pause',
      `${CONTAINERD}/cmd/containerd`,
      `${CONTAINERD}/cmd/containerd-shim-runc-v2`,
      `${CONTAINERD}/cmd/ctr`,
      `${CNI}/ipam/host-local`,
      `${CNI}/main/loopback`,
      `${CNI}/main/ptp`,
      `${CNI}/meta/portmap`,
    ],
    ldflags: [`-X ${CONTAINERD}/version.Version=v2.3.7`],
    links: {},
    shared: [],
    expectedSeconds: 45,
    scratchGiB: 3,
  },
  coredns: {
    packages: ['./cmd/coredns'],
    ldflags: [],
    links: {},
    shared: [],
    expectedSeconds: 45,
    scratchGiB: 3,
  },
  gvisor: {
    packages: ['gvisor.dev/gvisor/runsc', 'gvisor.dev/gvisor/shim'],
    ldflags: [],
    links: { shim: ['containerd-shim-runsc-v1'] },
    shared: [],
    expectedSeconds: 55,
    scratchGiB: 3,
  },
  cilium: {
    packages: [`${CILIUM}/daemon`, `${CILIUM}/plugins/cilium-cni`, `${CILIUM}/cilium-dbg`],
    ldflags: [`-X ${CILIUM}/pkg/version.ciliumVersion=1.20.2`],
    links: { daemon: ['cilium-agent'] },
    shared: [
      { module: CILIUM, from: 'bpf', to: 'cilium/bpf' },
      { module: CILIUM, from: 'pkg/k8s/apis/cilium.io/client/crds', to: 'cilium/crds' },
      { module: 'sigs.k8s.io/gateway-api', from: 'config/crd/standard', to: 'gateway-api/crds' },
    ],
    expectedSeconds: 200,
    scratchGiB: 5,
  },
  // CRDs of every custom kind in a GitOps tree. There is no program to build.
  crds: {
    packages: [],
    ldflags: [],
    links: {},
    shared: [
      { module: 'sigs.k8s.io/agent-sandbox', from: 'k8s/crds', to: 'agent-sandbox' },
      { module: CILIUM, from: 'pkg/k8s/apis/cilium.io/client/crds', to: 'cilium' },
      { module: 'sigs.k8s.io/gateway-api', from: 'config/crd/standard', to: 'gateway-api' },
      {
        module: 'github.com/prometheus-operator/prometheus-operator',
        from: 'example/prometheus-operator-crd',
        to: 'prometheus-operator',
      },
      { module: 'github.com/argoproj/argo-cd/v3', from: 'manifests/crds', to: 'argo-cd' },
      { module: 'github.com/fluxcd/kustomize-controller', from: 'config/crd/bases', to: 'flux-kustomize' },
      { module: 'github.com/fluxcd/source-controller', from: 'config/crd/bases', to: 'flux-source' },
    ],
    expectedSeconds: 20,
    scratchGiB: 1,
  },
}
