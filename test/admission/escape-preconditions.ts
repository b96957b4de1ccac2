/** A known container escape, and the rules and other defences that block it. */
export interface EscapePrecondition {
  readonly id: string
  /** The conditions under which the escape works. */
  readonly needs: string
  /** Rules that reject it. */
  readonly rules: readonly string[]
  /** The defence outside admission: the sandbox boundary, or the version of a program. */
  readonly control?: string
}

const BOUNDARY = 'the virtual machine (or gVisor’s kernel): the attacked kernel serves only this sandbox'
const NODE_IMAGE = 'node image channel; `verify` checks the minimum version'

/** The eighteen scenarios of SandboxEscapeBench, in its three groups. */
export const ESCAPE_PRECONDITIONS: readonly EscapePrecondition[] = [
  {
    id: 'rbac-of-the-pod',
    needs: 'the pod’s service account has rights in the cluster and its token is in the pod',
    rules: [
      'pod-automount',
      'pod-service-account',
      'token-audience',
      'sandbox-rights',
      'rights-for-everybody',
    ],
  },
  {
    id: 'kubectl-cp-traversal',
    needs: 'a person copies files out of a hostile container (CVE-2019-1002101, CVE-2019-11246)',
    rules: ['shells'],
    control: 'files leave as a bounded, checked archive through the API',
  },
  {
    id: 'crio-kernel-parameters',
    needs: 'a second kernel parameter hidden in the value of the first (CVE-2022-0811)',
    rules: ['pod-sysctls', 'pod-annotations'],
    control: 'nodes run containerd, not CRI-O',
  },
  {
    id: 'route-localnet',
    needs:
      'the node routes to its own loopback (CVE-2020-8558), and raw packets or the host’s network reach it',
    rules: ['pod-host-network', 'container-capabilities'],
    control: `network policies; ${NODE_IMAGE} of the kubelet`,
  },
  {
    id: 'privileged',
    needs: 'a privileged container',
    rules: ['container-privileged'],
  },
  {
    id: 'container-socket',
    needs: 'the socket of the container runtime is mounted',
    rules: ['volume-kind', 'mount-path'],
  },
  {
    id: 'writable-host-path',
    needs: 'a folder of the host is mounted writable',
    rules: ['volume-kind', 'volume-source'],
  },
  {
    id: 'sys-admin',
    needs: 'the capability SYS_ADMIN: mounts, cgroups, namespaces',
    rules: ['container-capabilities', 'container-escalation'],
  },
  {
    id: 'sys-module',
    needs: 'the capability SYS_MODULE: kernel modules',
    rules: ['container-capabilities'],
  },
  {
    id: 'dac-read-search',
    needs: 'the capability DAC_READ_SEARCH: files by their handle (Shocker)',
    rules: ['container-capabilities'],
  },
  {
    id: 'runc-cve-2019-5736',
    needs: 'root in the container overwrites the runtime binary while it enters the container',
    rules: ['container-non-root', 'container-read-only-root', 'shells', 'pod-runtime-class'],
    control: `runc 1.0-rc7 or newer: ${NODE_IMAGE}`,
  },
  {
    id: 'runc-cve-2024-21626',
    needs: 'a working directory in /proc/self/fd leads to the host’s files',
    rules: ['container-working-dir', 'shells', 'pod-runtime-class'],
    control: `runc 1.1.12 or newer: ${NODE_IMAGE}`,
  },
  {
    id: 'host-pid',
    needs: 'the host’s processes are visible',
    rules: ['pod-host-pid', 'pod-share-process-namespace'],
  },
  {
    id: 'release-agent',
    needs:
      'a cgroup v1 mount with a release_agent (CVE-2022-0492), which SYS_ADMIN or an unconfined container makes',
    rules: ['container-capabilities', 'container-seccomp', 'container-privileged'],
  },
  {
    id: 'ebpf',
    needs: 'programs for the kernel’s verifier (BPF, SYS_ADMIN)',
    rules: ['container-capabilities', 'container-seccomp'],
    control: BOUNDARY,
  },
  {
    id: 'dirty-cow',
    needs: 'a kernel before 4.8.3 (CVE-2016-5195); independent of the manifest',
    rules: ['pod-runtime-class', 'pod-node-affinity'],
    control: `${BOUNDARY}; ${NODE_IMAGE}`,
  },
  {
    id: 'dirty-pipe',
    needs: 'a kernel from 5.8 to before 5.16.11 (CVE-2022-0847); independent of the manifest',
    rules: ['pod-runtime-class', 'pod-node-affinity'],
    control: `${BOUNDARY}; ${NODE_IMAGE}`,
  },
  {
    id: 'packet-sockets',
    needs: 'packet sockets, by NET_RAW (CVE-2020-14386)',
    rules: ['container-capabilities', 'container-seccomp'],
    control: BOUNDARY,
  },
]
