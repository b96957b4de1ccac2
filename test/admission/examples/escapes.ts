import type { AdmissionSpace } from '../space.ts'
import { EXAMPLES } from './all.ts'
import type { Attempt, Draft } from './attempt.ts'
import { but, connect, create } from './attempt.ts'
import { anotherContainer, aSandboxPod } from './sandbox-pod.ts'

type Try = (space: AdmissionSpace) => Attempt
const pod =
  (weaken: (pod: Draft, space: AdmissionSpace) => void): Try =>
  (space) =>
    create(
      'controller',
      but(aSandboxPod(space), (draft) => weaken(draft, space)),
    )
const toolbox = (fields: Draft) =>
  pod(({ spec }) => Object.assign(spec.containers[1].securityContext, fields))
const capability = (name: string) => toolbox({ capabilities: { drop: ['ALL'], add: [name] } })
const hostPath = (path: string) => pod(({ spec }) => spec.volumes.push({ name: 'host', hostPath: { path } }))
const failing =
  (rule: string): Try =>
  (space) => {
    const example = EXAMPLES[rule]
    if (!example) throw new Error(`no example of ${rule}`)
    return example(space).fails
  }

/** For each known escape a request that would prepare it. */
export const ESCAPE_ATTEMPTS: Readonly<Record<string, Try>> = {
  'rbac-of-the-pod': failing('sandbox-rights'),
  'kubectl-cp-traversal': (space) =>
    connect('tenant', {
      apiVersion: 'v1',
      plural: 'pods',
      namespace: space.namespace,
      name: 'old-sandbox',
      subresource: 'exec',
    }),
  'crio-kernel-parameters': pod(({ spec }) => {
    spec.securityContext.sysctls = [
      { name: 'kernel.shm_rmid_forced', value: '1+kernel.core_pattern=|/tmp/x' },
    ]
  }),
  'route-localnet': pod(({ spec }) => {
    spec.hostNetwork = true
  }),
  privileged: toolbox({ privileged: true, allowPrivilegeEscalation: true }),
  'container-socket': hostPath('/run/containerd/containerd.sock'),
  'writable-host-path': hostPath('/'),
  'sys-admin': capability('SYS_ADMIN'),
  'sys-module': capability('SYS_MODULE'),
  'dac-read-search': capability('DAC_READ_SEARCH'),
  'runc-cve-2019-5736': pod(({ spec }, space) => {
    const init = anotherContainer(space, 'setup')
    spec.initContainers = [
      { ...init, securityContext: { ...init.securityContext, runAsNonRoot: false, runAsUser: 0 } },
    ]
  }),
  'runc-cve-2024-21626': pod(({ spec }) => {
    spec.containers[1].workingDir = '/proc/self/fd/8'
  }),
  'host-pid': pod(({ spec }) => {
    spec.hostPID = true
  }),
  'release-agent': toolbox({ seccompProfile: { type: 'Unconfined' } }),
  ebpf: capability('BPF'),
  'dirty-cow': pod(({ spec }) => delete spec.runtimeClassName),
  'dirty-pipe': pod(({ spec }) => delete spec.affinity),
  'packet-sockets': capability('NET_RAW'),
}
