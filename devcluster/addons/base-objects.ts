import { RUNTIME_CLASSES } from '../../contracts/labels.ts'
import type { KubeObject } from '../client/kube-object.ts'
import type { ClusterOptions } from '../cluster-options.ts'
import { KUBELET_CLIENT } from '../pki/cluster-pki.ts'

/** Objects that an installer creates in every cluster: kubelet access for the API server, storage, runtime classes. */
export function baseObjects({ nodes, gvisor }: ClusterOptions): KubeObject[] {
  return [kubeletAccess(), ...(nodes > 0 ? [storageClass()] : []), ...(gvisor ? [gvisorClass()] : [])]
}

/** Without these permissions, the API server cannot use the kubelet for exec, logs and port-forward. */
function kubeletAccess(): KubeObject {
  return {
    apiVersion: 'rbac.authorization.k8s.io/v1',
    kind: 'ClusterRoleBinding',
    metadata: { name: 'apiserver-kubelet-access' },
    roleRef: { apiGroup: 'rbac.authorization.k8s.io', kind: 'ClusterRole', name: 'system:kubelet-api-admin' },
    subjects: [{ apiGroup: 'rbac.authorization.k8s.io', kind: 'User', name: KUBELET_CLIENT }],
  }
}

function storageClass(): KubeObject {
  return {
    apiVersion: 'storage.k8s.io/v1',
    kind: 'StorageClass',
    metadata: { name: 'hostpath', annotations: { 'storageclass.kubernetes.io/is-default-class': 'true' } },
    provisioner: 'kubernetes.io/host-path',
    reclaimPolicy: 'Delete',
    volumeBindingMode: 'Immediate',
  }
}

function gvisorClass(): KubeObject {
  return {
    apiVersion: 'node.k8s.io/v1',
    kind: 'RuntimeClass',
    metadata: { name: RUNTIME_CLASSES.gvisor.name },
    handler: RUNTIME_CLASSES.gvisor.handler,
  }
}
