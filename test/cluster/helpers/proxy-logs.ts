import type { DeployedApi } from './deployed-api.ts'

/** The state of the replicas of the egress proxy and the end of their logs, for a person. */
export async function proxyLogs(api: DeployedApi, namespace: string): Promise<string> {
  const { output } = await api.rig.kubectl('describe', 'pods', '--namespace', namespace)
  const logs = await api.rig.kubectl(
    ...['logs', '--namespace', namespace, '--tail', '40', '--prefix'],
    ...['--selector', 'app.kubernetes.io/component=egress-proxy'],
  )
  return `${await api.why()}\n${output}\n${logs.output}\n`
}
