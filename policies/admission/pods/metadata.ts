import { CLASS_LABEL } from '../../../contracts/labels.ts'
import { byController } from '../actors.ts'
import { changedKeys, list, text } from '../cel.ts'
import type { AdmissionRule } from '../rule.ts'

/** Prefix of the labels and annotations that the controller writes on pods. */
const CONTROLLER_PREFIX = 'agents.x-k8s.io/'
const SAFE_TO_EVICT = 'cluster-autoscaler.kubernetes.io/safe-to-evict'
const LABEL_PREFIXES = [CONTROLLER_PREFIX, 'app.kubernetes.io/']

const isKnownLabel = (key: string) =>
  `${key} == ${text(CLASS_LABEL)} || ${list(LABEL_PREFIXES)}.exists(p, ${key}.startsWith(p))`
const isKnownAnnotation = (key: string) =>
  `${key} == ${text(SAFE_TO_EVICT)} || ${key}.startsWith(${text(CONTROLLER_PREFIX)})`

/** Rules for the metadata of a new pod. Annotations and labels configure runtimes, networks and injecting webhooks. */
export const NEW_METADATA: readonly AdmissionRule[] = [
  {
    name: 'pod-kata-annotations',
    expression: "variables.annotations.all(k, !k.startsWith('io.katacontainers.'))",
    offenders:
      "variables.annotations.filter(k, k.startsWith('io.katacontainers.')).map(k, 'metadata.annotations.' + string(k))",
    message: 'must be left out: it reconfigures the virtual machine',
    risk: 'the sandbox could replace the kernel, hypervisor or shared folders of its virtual machine',
  },
  {
    name: 'pod-annotations',
    expression: `variables.annotations.all(k, ${isKnownAnnotation('k')} || k.startsWith('io.katacontainers.'))`,
    offenders: `variables.annotations.filter(k, !(${isKnownAnnotation('k')})).map(k, 'metadata.annotations.' + string(k))`,
    message:
      'is not an annotation that a sandbox may have: remove it, because runtimes, networks and webhooks obey annotations',
    risk: 'an annotation could change the isolation or the network (gVisor flags, additional networks, sidecars)',
  },
  {
    name: 'pod-labels',
    expression: `variables.labels.all(k, ${isKnownLabel('k')})`,
    offenders: `variables.labels.filter(k, !(${isKnownLabel('k')})).map(k, 'metadata.labels.' + string(k))`,
    message: `is not a label that a sandbox may have (${CLASS_LABEL}, app.kubernetes.io/…): remove it`,
    risk: 'a webhook could inject containers, or a selector for other workloads could match the sandbox',
  },
]

const changed = (map: string) => changedKeys(`variables.${map}Before`, `variables.${map}`)

/**
 * Rules for the metadata of a running pod. A changed label moves the pod under other network policies. Requests to the
 * status subresource can change metadata too.
 */
export const CHANGED_METADATA: readonly AdmissionRule[] = [
  {
    name: 'pod-labels-frozen',
    expression: `${changed('labels')}.all(k, k.startsWith('${CONTROLLER_PREFIX}') && ${byController})`,
    offenders: `${changed('labels')}.map(k, 'metadata.labels.' + string(k))`,
    message: 'cannot change on a running sandbox: network policies select by labels',
    risk: 'a running sandbox could move to other network policies',
  },
  {
    name: 'pod-annotations-frozen',
    expression: `${changed('annotations')}.all(k, (${isKnownAnnotation('k')}) && ${byController})`,
    offenders: `${changed('annotations')}.map(k, 'metadata.annotations.' + string(k))`,
    message: 'cannot change on a running sandbox',
    risk: 'an annotation could change the isolation or the network of a running sandbox',
  },
]

const ofObject = (object: string, field: string) => `${object}.metadata.?${field}.orValue({})`

export const METADATA_VARIABLES = {
  labels: ofObject('object', 'labels'),
  annotations: ofObject('object', 'annotations'),
}
export const METADATA_BEFORE_VARIABLES = {
  ...METADATA_VARIABLES,
  labelsBefore: ofObject('oldObject', 'labels'),
  annotationsBefore: ofObject('oldObject', 'annotations'),
}
