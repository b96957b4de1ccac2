/** A Kubernetes object with the fields that this program uses. */
export interface KubeManifest {
  readonly apiVersion: string
  readonly kind: string
  readonly metadata: { readonly name: string; readonly namespace?: string; readonly [key: string]: unknown }
  readonly [key: string]: unknown
}

interface LockedObject {
  readonly apiVersion: string
  readonly kind: string
  readonly name: string
  readonly namespace?: string
}

/** A file of the release, by checksum, and the objects that are in it. */
export interface LockedFile {
  readonly path: string
  readonly sha256: string
  readonly objects: readonly LockedObject[]
}

/** The upstream release that is installed, the same that the test clusters run. */
export const CONTROLLER_VERSION = 'v1.0.3'
export const CONTROLLER_SOURCE = `https://raw.githubusercontent.com/kubernetes-sigs/agent-sandbox/${CONTROLLER_VERSION}/k8s`

/**
 * Files of the release, in an order in which they can be applied. Checksums are of the Go module of that version, which
 * `devcluster/tools/crds/go.sum` vouches for. The second copy of the controller, with its extensions, is not among them:
 * `hardened` turns them on in the first.
 */
export const CONTROLLER_FILES: readonly LockedFile[] = [
  {
    path: 'controller.yaml',
    sha256: '70b69b516a34be26f66c1cd84fb97e6d65d0425bf5cdad650a78b022ad5689f7',
    objects: [
      { apiVersion: 'v1', kind: 'Namespace', name: 'agent-sandbox-system' },
      {
        apiVersion: 'v1',
        kind: 'ServiceAccount',
        name: 'agent-sandbox-controller',
        namespace: 'agent-sandbox-system',
      },
      {
        apiVersion: 'rbac.authorization.k8s.io/v1',
        kind: 'ClusterRoleBinding',
        name: 'agent-sandbox-controller',
      },
      {
        apiVersion: 'v1',
        kind: 'Service',
        name: 'agent-sandbox-controller',
        namespace: 'agent-sandbox-system',
      },
      {
        apiVersion: 'apps/v1',
        kind: 'Deployment',
        name: 'agent-sandbox-controller',
        namespace: 'agent-sandbox-system',
      },
    ],
  },
  {
    path: 'rbac.generated.yaml',
    sha256: '5a6ca69f3ff8538d759fa35b45e4044086d1de1686acde19faf5f8f7251e89c5',
    objects: [
      { apiVersion: 'rbac.authorization.k8s.io/v1', kind: 'ClusterRole', name: 'agent-sandbox-controller' },
    ],
  },
  {
    path: 'extensions.yaml',
    sha256: '40cbfd3e97c768d78f7de9ec9d399ad3389801ff96354ef724c4ccc3a287352d',
    objects: [
      {
        apiVersion: 'rbac.authorization.k8s.io/v1',
        kind: 'ClusterRoleBinding',
        name: 'agent-sandbox-controller-extensions',
      },
    ],
  },
  {
    path: 'extensions-rbac.generated.yaml',
    sha256: 'c40a97bf17e3c1a8d13dd0d549142c97bb46ef6f20926330fc70d475f66ea66a',
    objects: [
      {
        apiVersion: 'rbac.authorization.k8s.io/v1',
        kind: 'ClusterRole',
        name: 'agent-sandbox-controller-extensions',
      },
    ],
  },
  {
    path: 'crds/agents.x-k8s.io_sandboxes.yaml',
    sha256: 'bc6d66863decb675ce6da2c835ee3bb06aaaf8d73ad03aae9fe971fde5e8acce',
    objects: [
      {
        apiVersion: 'apiextensions.k8s.io/v1',
        kind: 'CustomResourceDefinition',
        name: 'sandboxes.agents.x-k8s.io',
      },
    ],
  },
  {
    path: 'crds/extensions.agents.x-k8s.io_sandboxclaims.yaml',
    sha256: 'a56399ca6ce8708910a8f6c1ff2fecd355100b0a6807b7f5c955868bb3963d18',
    objects: [
      {
        apiVersion: 'apiextensions.k8s.io/v1',
        kind: 'CustomResourceDefinition',
        name: 'sandboxclaims.extensions.agents.x-k8s.io',
      },
    ],
  },
  {
    path: 'crds/extensions.agents.x-k8s.io_sandboxtemplates.yaml',
    sha256: '90f3ace51db1d30ae5d1de78ed3aafc80395ce66f4c617cbc73d5d8532f1f999',
    objects: [
      {
        apiVersion: 'apiextensions.k8s.io/v1',
        kind: 'CustomResourceDefinition',
        name: 'sandboxtemplates.extensions.agents.x-k8s.io',
      },
    ],
  },
  {
    path: 'crds/extensions.agents.x-k8s.io_sandboxwarmpools.yaml',
    sha256: 'f90a1db800dc04625d370abc59e5166f7b0ca909a2d869176be8abc08cd3a13d',
    objects: [
      {
        apiVersion: 'apiextensions.k8s.io/v1',
        kind: 'CustomResourceDefinition',
        name: 'sandboxwarmpools.extensions.agents.x-k8s.io',
      },
    ],
  },
]

/**
 * Objects of the release by name only, each with the checksum of its file. A plan shows these if the files are not
 * available.
 */
export function lockedObjects(): KubeManifest[] {
  return CONTROLLER_FILES.flatMap(({ sha256, objects }) =>
    objects.map(({ apiVersion, kind, name, namespace }) => ({
      apiVersion,
      kind,
      metadata: { name, ...(namespace && { namespace }), annotations: { [LOCK_ANNOTATION]: sha256 } },
    })),
  )
}

/**
 * Marks an object in a plan that has only its name: the checksum of the release file that contains the complete
 * object.
 */
const LOCK_ANNOTATION = 'agentweaver.io/release-file-sha256'
