import type { KubeObject } from '../../../devcluster/client/kube-object.ts'
import { processesOf } from './canary-search.ts'

/** The processes of a pod's containers, with the names of the containers. */
export function containerProcesses({ metadata, ...pod }: KubeObject) {
  const statuses: { name: string; containerID: string }[] = pod['status'].containerStatuses
  return processesOf(String(metadata.uid)).flatMap((found) => {
    const status = statuses.find(({ containerID }) => found.container.includes(containerID.slice(-64)))
    return status ? [{ ...found, name: status.name }] : []
  })
}
