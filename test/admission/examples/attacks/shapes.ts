import type { AdmissionSpace } from '../../space.ts'
import { but, create, type Draft, patch } from '../attempt.ts'
import { aDebugContainer, anotherContainer, aSandboxPod } from '../sandbox-pod.ts'
import { OLD } from '../writers.ts'
import { type Attacks, pod, type Try } from './attack.ts'

const weakened =
  (weaken: (draft: Draft, space: AdmissionSpace) => void): Try =>
  (space) =>
    create(
      'controller',
      but(aSandboxPod(space), (draft) => weaken(draft, space)),
    )
const debug =
  (change: Draft): Try =>
  (space) =>
    patch('breakGlass', pod('ephemeralcontainers')(space), {
      spec: { ephemeralContainers: [{ ...aDebugContainer(space), ...change }] },
    })

/** Weak sandboxes that use other fields than the examples of the rules. */
export const SHAPE_ATTACKS: Attacks = {
  'a privileged init container': [
    'container-privileged',
    weakened(({ spec }, space) => {
      const init = anotherContainer(space, 'setup')
      spec.initContainers = [
        {
          ...init,
          securityContext: { ...init.securityContext, privileged: true, allowPrivilegeEscalation: true },
        },
      ]
    }),
  ],
  'an init container that carries the credential away': [
    'token-container',
    weakened(({ spec }, space) => {
      spec.initContainers = [
        {
          ...anotherContainer(space, 'setup'),
          volumeMounts: [{ name: 'azure-token', mountPath: '/var/run/secrets/azure/tokens', readOnly: true }],
        },
      ]
    }),
  ],
  'an init container of somebody’s image': [
    'container-image',
    weakened(({ spec }, space) => {
      spec.initContainers = [
        {
          ...anotherContainer(space, 'setup'),
          image: `registry.example/toolbox-evil@sha256:${'ab'.repeat(32)}`,
        },
      ]
    }),
  ],
  'a command sandbox with the identity of agents': [
    'pod-service-account',
    weakened(({ metadata }) => {
      metadata.labels['agentweaver.io/class'] = 'command'
    }),
  ],
  'a command sandbox with a token for Azure': [
    'token-audience',
    weakened(({ metadata, spec }, { parameters }) => {
      metadata.labels['agentweaver.io/class'] = 'command'
      spec.serviceAccountName = parameters.commandAccount
    }),
  ],
  'a token for the Kubernetes API, by naming no audience': [
    'token-audience',
    weakened(({ spec }) => {
      delete spec.volumes.find(({ name }: Draft) => name === 'identity-token').projected.sources[0]
        .serviceAccountToken.audience
    }),
  ],
  'a home that climbs out': [
    'mount-path',
    weakened(({ spec }) => {
      spec.containers[1].volumeMounts[0].mountPath = '/home/../usr'
    }),
  ],
  'a token that climbs out': [
    'mount-read-only',
    weakened(({ spec }) => {
      spec.containers[0].volumeMounts[3].mountPath = '/var/run/secrets/../../etc'
    }),
  ],
  'the workspace in both containers, by another name of the folder': [
    'workspace-container',
    weakened(({ spec }) => {
      spec.containers[0].volumeMounts.push({ name: 'toolbox-tmp', mountPath: '/home/shared' })
    }),
  ],
  'the volume of another sandbox': [
    'volume-claim',
    weakened(({ spec }) => {
      spec.volumes.find(({ name }: Draft) => name === 'workspace').persistentVolumeClaim.claimName =
        `workspace-${OLD.pod}`
    }),
  ],
  'seccomp off for one container': [
    'container-seccomp',
    weakened(({ spec }) => {
      spec.containers[1].securityContext.seccompProfile = { type: 'Localhost', localhostProfile: 'x.json' }
    }),
  ],
  'the node’s resolver': [
    'pod-dns',
    weakened(({ spec }) => {
      spec.dnsPolicy = 'Default'
    }),
  ],
  'a second network by annotation': [
    'pod-annotations',
    weakened(({ metadata }) => {
      metadata.annotations['k8s.v1.cni.cncf.io/networks'] = 'other'
    }),
  ],
  'a privileged ephemeral container of the break-glass group': [
    'container-privileged',
    debug({ securityContext: { privileged: true } }),
  ],
  'a tokens’ mount in an ephemeral container': [
    'token-container',
    debug({
      volumeMounts: [{ name: 'azure-token', mountPath: '/var/run/secrets/azure/tokens', readOnly: true }],
    }),
  ],
  'any image in an ephemeral container': ['container-image', debug({ image: 'busybox' })],
}
