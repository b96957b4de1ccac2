import { CONTROLLER_NAMESPACE } from '../../contracts/names.ts'

/** The service account of the agent-sandbox controller, as its release names it. */
export const CONTROLLER_IDENTITY = `system:serviceaccount:${CONTROLLER_NAMESPACE}:agent-sandbox-controller`

/**
 * Kubernetes controllers that complete deletions. Depending on the cluster, they use their own service accounts or the
 * account of the controller manager.
 */
const COLLECTORS = [
  'system:serviceaccount:kube-system:generic-garbage-collector',
  'system:serviceaccount:kube-system:namespace-controller',
  'system:kube-controller-manager',
]

const user = 'request.userInfo.username'

export const byController = `${user} == variables.controllerIdentity`
export const byCollector = `${user} in [${COLLECTORS.map((name) => `'${name}'`).join(', ')}]`
export const byGitops = `${user} == variables.gitopsIdentity`
export const byBreakGlass = 'request.userInfo.groups.exists(g, g == variables.breakGlassGroup)'
export const byNode = "request.userInfo.groups.exists(g, g == 'system:nodes')"
export const bySystem = (name: string) =>
  `${user} in ['system:serviceaccount:kube-system:${name}', 'system:kube-controller-manager']`
/** The API server itself, which updates the usage in quota status. */
export const byServer = `${user} == 'system:apiserver'`
export const byScheduler = `${user} == 'system:kube-scheduler'`
export const byApi = `${user} == params.data.apiIdentity`
