import type { AddressInfo, Server } from 'node:net'
import type pg from 'pg'
import { API_PORT, METRICS_PORT } from '../../../contracts/ports.ts'
import type { KubeObject } from '../../../devcluster/client/kube-object.ts'
import { GATEWAY_LABELS, openTunnel, startRelayPod } from '../../../devcluster/service/gateway-pod.ts'
import { type InstallTarget, installService } from '../../../devcluster/service/install-service.ts'
import { type LocalEndpoint, openLocalEndpoint } from '../../../devcluster/service/local-endpoint.ts'
import { CONTROL_PLANE, PUBLIC_NAME, SANDBOXES } from '../../../devcluster/service/names.ts'
import { apiPods, readyApiPods, waitForApi, waitForPools } from '../../../devcluster/service/readiness.ts'
import { type Client, createClient } from '../../../runtime/client/client.ts'
import { fetchThrough } from '../../helpers/fetch-through.ts'
import { processesOf } from './canary-search.ts'
import { type GitopsRig, startGitopsRig } from './gitops-rig.ts'

export const API_ACCOUNT = `system:serviceaccount:${CONTROL_PLANE}:agentweaver-api`
const MONITORING = 'monitoring'
const PODS = { apiVersion: 'v1', plural: 'pods' }

export type Replica = {
  readonly name: string
  readonly uid: string
  readonly ip: string
  readonly client: Client
}

export interface DeployedApi {
  readonly rig: GitopsRig
  /** The Service, as the front door reaches it. */
  readonly service: Client
  /** The replicas that are ready, each reached by itself. */
  replicas(): Promise<Replica[]>
  pods(): Promise<KubeObject[]>
  waitForPools(): Promise<void>
  /** A port of this machine that leads to the Service, for the command line. */
  endpoint(): Promise<LocalEndpoint>
  /**
   * Ends a process as the kernel does when it is out of memory: nothing of it runs any more. A pod that is only deleted works
   * for another second, but without its rights in the cluster.
   */
  kill(pod: Pick<Replica, 'name' | 'uid'>): Promise<void>
  /** Sends an HTTP request from a Gateway or monitoring pod, and returns the response's status and text. */
  ask(from: 'gateway' | 'monitoring', url: string): Promise<{ status: number; text: string }>
  /** The cluster's report on the deployment, for the diagnosis of a failed test. */
  why(): Promise<string>
  query<T extends pg.QueryResultRow>(text: string): Promise<T[]>
  stop(): Promise<void>
}

/**
 * Deploys the committed tree of the local environment on a separate cluster, with its real images, keys and database.
 * Nothing in the tree is specific to tests. Requests come from a pod in the Gateway's place.
 */
export async function deployApi(
  changes: Pick<InstallTarget, 'change' | 'egress' | 'credentials'> = {},
): Promise<DeployedApi> {
  const undo: Undo = []
  const stop = async () => {
    for (const step of undo.splice(0).reverse()) await step()
  }
  try {
    const rig = await startGitopsRig({ gvisor: true, cilium: 'instant' })
    undo.push(() => rig.stop())
    const print = (line: string) => process.stderr.write(`${line}\n`)
    const { apiKey, database } = await installService(
      { cluster: rig.cluster, client: rig.client, ...changes },
      print,
    )
    undo.push(() => database.stop())
    return {
      ...(await reach(rig, apiKey, undo)),
      query: database.query,
      rig,
      stop,
      why: () => whyNot(rig),
    }
  } catch (error) {
    await stop()
    throw error
  }
}

type Undo = (() => unknown)[]

async function reach(
  rig: GitopsRig,
  apiKey: string,
  undo: Undo,
): Promise<Omit<DeployedApi, 'rig' | 'stop' | 'query' | 'why'>> {
  const pods = () => apiPods(rig.client)
  await waitForApi(rig.client).catch(async (error: Error) => {
    throw new Error(`${error.message}\n${await whyNot(rig)}`, { cause: error })
  })
  await rig.client.create({ apiVersion: 'v1', kind: 'Namespace', metadata: { name: MONITORING } })
  const [gateway, monitoring] = await Promise.all([
    startRelayPod(rig.client, CONTROL_PLANE, GATEWAY_LABELS),
    startRelayPod(rig.client, MONITORING, {}),
  ])
  const servers: Server[] = []
  undo.push(() => {
    for (const server of servers) server.close()
  })
  const through = async (relay: string, host: string, port: number) => {
    const server = await openTunnel(relay, `${host}:${port}`)
    servers.push(server)
    return fetchThrough((server.address() as AddressInfo).port)
  }
  // The API accepts its own names alone, so requests carry the name that a client of the Gateway or a probe sends.
  const clientAt = async (host: string, name = `${host}:${API_PORT}`) =>
    createClient({ url: `http://${name}`, apiKey, fetch: await through(gateway, host, API_PORT) })
  const path = { apiVersion: 'v1', plural: 'services', namespace: CONTROL_PLANE, name: 'agentweaver-api' }
  const { clusterIP } = (await rig.client.get(path))['spec'] as { clusterIP: string }
  const known = new Map<string, Replica>()
  return {
    service: await clientAt(clusterIP, PUBLIC_NAME),
    pods,
    async replicas() {
      const found = await readyApiPods(rig.client)
      return Promise.all(
        found.map(async ({ metadata, ...pod }) => {
          const uid = String(metadata.uid)
          const ip = String(pod['status'].podIP)
          const replica = known.get(uid) ?? { name: metadata.name, uid, ip, client: await clientAt(ip) }
          known.set(uid, replica)
          return replica
        }),
      )
    },
    waitForPools: () => waitForPools(rig.client),
    async endpoint() {
      const tunnel = await openTunnel(gateway, `${clusterIP}:${API_PORT}`)
      servers.push(tunnel)
      return openLocalEndpoint(rig.cluster.slot, (tunnel.address() as AddressInfo).port)
    },
    async kill({ name, uid }) {
      const processes = processesOf(uid)
      if (processes.length === 0) throw new Error(`${name} has no process`)
      for (const { pid } of processes) process.kill(pid, 'SIGKILL')
      await rig.client.delete({ ...PODS, namespace: CONTROL_PLANE, name }, { gracePeriodSeconds: 0 })
    },
    async ask(from, url) {
      const { hostname, port } = new URL(url)
      const relay = from === 'gateway' ? gateway : monitoring
      const send = await through(relay, hostname, Number(port || METRICS_PORT))
      const response = await send(url, { signal: AbortSignal.timeout(5_000) })
      return { status: response.status, text: await response.text() }
    },
  }
}

/** Diagnosis of the deployment: the state and the logs of the API's pods. */
async function whyNot({ kubectl }: GitopsRig): Promise<string> {
  const of = ['--namespace', CONTROL_PLANE]
  const logs = ['logs', '--selector', 'app.kubernetes.io/component=api', '--tail', '60', '--prefix', ...of]
  const ofSandboxes = ['--namespace', SANDBOXES]
  const said = await Promise.all([
    kubectl('get', 'pods', '--output', 'wide', ...of),
    kubectl('describe', 'pods', '--selector', 'app.kubernetes.io/component=api', ...of),
    kubectl(...logs),
    kubectl(...logs, '--previous'),
    kubectl('get', 'events,pods,sandboxclaims', '--output', 'wide', ...ofSandboxes),
  ])
  return said.map(({ output }) => output).join('\n')
}
