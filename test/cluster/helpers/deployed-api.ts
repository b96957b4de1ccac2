import { once } from 'node:events'
import { mkdtempSync, rmSync } from 'node:fs'
import { type AddressInfo, connect, createServer, type Server, type Socket } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import pg from 'pg'
import type { Environment } from '../../../charts-src/environment/schema.ts'
import { API_PORT, METRICS_PORT } from '../../../contracts/ports.ts'
import { cacheRoot } from '../../../devcluster/build/tool-cache.ts'
import type { KubeObject } from '../../../devcluster/client/kube-object.ts'
import { installCrds } from '../../../devcluster/client/manifests.ts'
import { waitUntil } from '../../../devcluster/host/wait-until.ts'
import type { ImageSpec } from '../../../devcluster/images/image-spec.ts'
import { apiImage, podImages } from '../../../devcluster/images/pod-images.ts'
import { TOOLBOX_IMAGE } from '../../../devcluster/images/toolbox.ts'
import { type Client, createClient } from '../../../runtime/client/client.ts'
import { makeKeys } from '../../../scripts/make-keys.ts'
import { thirdPartyCrds } from '../../charts/third-party-crds.ts'
import { fetchThrough } from '../../helpers/fetch-through.ts'
import { startPostgres } from '../../helpers/postgres-server.ts'
import { type GitopsRig, startGitopsRig } from './gitops-rig.ts'
import { openOutside } from './outside.ts'
import { importPinned } from './stand-in-images.ts'

export const CONTROL_PLANE = 'agentweaver'
export const SANDBOXES = 'agentweaver-sandboxes'
export const API_ACCOUNT = `system:serviceaccount:${CONTROL_PLANE}:agentweaver-api`
const MONITORING = 'monitoring'
/** As the environment file of the local cluster and the cluster's resolver have it. */
const DATABASE = '198.51.100.40'
const PUBLIC_NAME = 'api.local.agentweaver.example'
const READY_MS = 120_000
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
  /** Ends a process as the kernel does when it is out of memory: nothing of it runs any more. */
  kill(pod: Pick<Replica, 'name'>): Promise<void>
  /** An HTTP answer's status and text, asked for by the Gateway's pods or by those of the monitoring. */
  ask(from: 'gateway' | 'monitoring', url: string): Promise<{ status: number; text: string }>
  /** What the cluster says of it, for whoever reads why a test failed. */
  why(): Promise<string>
  query<T extends pg.QueryResultRow>(text: string): Promise<T[]>
  stop(): Promise<void>
}

/**
 * The committed tree of the local environment on a cluster of its own, with its real images, keys and database: nothing
 * in it knows that it is a test. It is reached through a pod that stands where the Gateway's would.
 */
export async function deployApi(): Promise<DeployedApi> {
  const undo: Undo = []
  const stop = async () => {
    for (const step of undo.splice(0).reverse()) await step()
  }
  try {
    const rig = await startGitopsRig({ gvisor: true, cilium: 'instant' })
    undo.push(() => rig.stop())
    await installCrds(rig.client, await thirdPartyCrds())
    const database = await startDatabase(rig, undo)
    const keysFolder = mkdtempSync(join(tmpdir(), 'aw-keys-'))
    undo.push(() => rmSync(keysFolder, { recursive: true, force: true }))
    const { files, jwks } = await makeKeys(join(keysFolder, 'keys'))
    await keepKeys(rig, files)
    const images = await importImages(rig)
    const tree = rig.render('local', (environment) => changed(environment, { images, jwks }))
    const { code, output } = await rig.apply(tree)
    if (code !== 0) throw new Error(`the tree was not applied:\n${output}`)
    return {
      ...(await reach(rig, files['api-key'] ?? '', undo)),
      ...database,
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

/** A PostgreSQL outside the cluster, behind the name and the address that the environment has for it. */
async function startDatabase(rig: GitopsRig, undo: Undo): Promise<Pick<DeployedApi, 'query'>> {
  const network = await openOutside(rig.cluster.folder, {
    link: 'database',
    hostByte: 4,
    addresses: [DATABASE],
    ranges: [`${DATABASE}/32`],
  })
  undo.push(() => network.stop())
  const server = await startPostgres({
    pid: network.pid,
    address: DATABASE,
    port: 5432,
    rule: 'host agentweaver agentweaver-api 0.0.0.0/0 trust',
  })
  undo.push(() => server.stop())
  const url = new URL(server.url)
  const run = async <T extends pg.QueryResultRow>(text: string): Promise<T[]> => {
    const client = new pg.Client({ connectionString: url.href })
    await client.connect()
    try {
      return (await client.query<T>(text)).rows
    } finally {
      await client.end()
    }
  }
  await run('CREATE ROLE "agentweaver-api" LOGIN')
  await run('CREATE DATABASE agentweaver OWNER "agentweaver-api"')
  url.pathname = '/agentweaver'
  return { query: run }
}

/** What an operator, or something that reads a vault, puts there: the tree has no Secret. */
async function keepKeys({ client }: GitopsRig, files: Readonly<Record<string, string>>): Promise<void> {
  const metadata = { name: `${CONTROL_PLANE}-keys`, namespace: CONTROL_PLANE }
  await client.create({ apiVersion: 'v1', kind: 'Namespace', metadata: { name: CONTROL_PLANE } })
  await client.create({ apiVersion: 'v1', kind: 'Secret', metadata, stringData: files })
}

async function importImages({ cluster }: GitopsRig) {
  const [agentHost, toolbox] = await podImages(cacheRoot(), process.execPath)
  const api = await apiImage(cacheRoot(), process.execPath)
  if (!agentHost || !toolbox) throw new Error('a sandbox pod has two images')
  const named = (name: string, spec: ImageSpec) => ({ ...spec, reference: `localhost/agentweaver/${name}:1` })
  const specs = [named('api', api), named('agent-host', agentHost), named('toolbox', toolbox)]
  const [ofApi, ofHost, ofToolbox] = await importPinned(cluster, specs)
  if (!ofApi || !ofHost || !ofToolbox) throw new Error('an image was not imported')
  return { api: ofApi, agentHost: ofHost, toolbox: ofToolbox }
}

type Given = { readonly images: Partial<Environment['images']>; readonly jwks: object }

/** Images and keys as a pipeline fills them in; two replicas, whatever the load of this machine. */
function changed(environment: Environment, { images, jwks }: Given): object {
  const { sizes } = environment
  return {
    ...environment,
    images: { ...environment.images, ...images },
    keys: { jwks },
    sizes: { ...sizes, api: { ...sizes.api, maxReplicas: sizes.api.replicas } },
  }
}

async function reach(
  rig: GitopsRig,
  apiKey: string,
  undo: Undo,
): Promise<Omit<DeployedApi, 'rig' | 'stop' | 'query' | 'why'>> {
  const pods = async () =>
    (await rig.client.list({ ...PODS, namespace: CONTROL_PLANE })).items.filter(
      (pod) => pod.metadata['labels']?.['app.kubernetes.io/component'] === 'api',
    )
  const ready = async () =>
    (await pods()).filter((pod) => isReady(pod) && pod.metadata['deletionTimestamp'] === undefined)
  await waitUntil({ what: 'two replicas of the API', timeoutMs: READY_MS, everyMs: 250 }, async () =>
    (await ready()).length === 2 ? true : undefined,
  ).catch(async (error: Error) => {
    throw new Error(`${error.message}\n${await whyNot(rig)}`, { cause: error })
  })
  await rig.client.create({ apiVersion: 'v1', kind: 'Namespace', metadata: { name: MONITORING } })
  const [gateway, monitoring] = await Promise.all([
    startDoor(rig, CONTROL_PLANE, { 'gateway.networking.k8s.io/gateway-name': 'agentweaver-api' }),
    startDoor(rig, MONITORING, {}),
  ])
  const servers: Server[] = []
  undo.push(() => {
    for (const server of servers) server.close()
  })
  const through = async (door: string, host: string, port: number) => {
    const server = await openTunnel(door, `${host}:${port}`)
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
      const found = await ready()
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
    async waitForPools() {
      const pools = { apiVersion: 'extensions.agents.x-k8s.io/v1beta1', plural: 'sandboxwarmpools' }
      await waitUntil({ what: 'full warm pools', timeoutMs: READY_MS, everyMs: 250 }, async () => {
        const { items } = await rig.client.list({ ...pools, namespace: SANDBOXES })
        const isFull = (pool: KubeObject) => pool['status']?.readyReplicas === pool['spec'].replicas
        return items.length === 2 && items.every(isFull) ? true : undefined
      })
    },
    async kill({ name }) {
      await rig.client.delete({ ...PODS, namespace: CONTROL_PLANE, name }, { gracePeriodSeconds: 0 })
    },
    async ask(from, url) {
      const { hostname, port } = new URL(url)
      const door = from === 'gateway' ? gateway : monitoring
      const send = await through(door, hostname, Number(port || METRICS_PORT))
      const response = await send(url, { signal: AbortSignal.timeout(5_000) })
      return { status: response.status, text: await response.text() }
    },
  }
}

/** What the pods of the API say of themselves. */
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

const isReady = (pod: KubeObject): boolean =>
  (pod['status']?.conditions ?? []).some(
    ({ type, status }: { type: string; status: string }) => type === 'Ready' && status === 'True',
  )

const DOOR_PORT = 80
/** Leads a connection on to whom it asks for, as `CONNECT` does; what the network refuses ends it. */
const DOOR = `
  const net = require('node:net')
  net.createServer((from) => {
    from.on('error', () => from.destroy())
    from.once('data', (head) => {
      const [, host, port] = /^CONNECT ([^ ]+):([0-9]+) /.exec(String(head)) ?? []
      const to = net.connect({ host, port: Number(port) }, () => {
        from.write('HTTP/1.1 200 OK\\r\\n\\r\\n')
        from.pipe(to).pipe(from)
      })
      to.on('error', () => from.destroy())
      from.on('close', () => to.destroy())
    })
  }).listen(${DOOR_PORT}, '0.0.0.0')`

/** A pod that stands where another's would; answers its address. */
async function startDoor(
  { client }: GitopsRig,
  namespace: string,
  labels: Readonly<Record<string, string>>,
): Promise<string> {
  const name = 'door'
  const size = { cpu: '10m', memory: '64Mi', 'ephemeral-storage': '16Mi' }
  await client.create({
    apiVersion: 'v1',
    kind: 'Pod',
    metadata: { name, namespace, labels },
    spec: {
      terminationGracePeriodSeconds: 0,
      automountServiceAccountToken: false,
      securityContext: { runAsNonRoot: true, runAsUser: 1000, seccompProfile: { type: 'RuntimeDefault' } },
      containers: [
        {
          name,
          image: TOOLBOX_IMAGE,
          imagePullPolicy: 'Never',
          command: ['/usr/local/bin/node', '-e', DOOR],
          resources: { requests: size, limits: { ...size, cpu: '500m' } },
          securityContext: { allowPrivilegeEscalation: false, capabilities: { drop: ['ALL'] } },
          readinessProbe: { tcpSocket: { port: DOOR_PORT }, periodSeconds: 1 },
        },
      ],
    },
  })
  return waitUntil({ what: `a way in by ${namespace}`, timeoutMs: READY_MS, everyMs: 250 }, async () => {
    const pod = await client.get({ ...PODS, namespace, name })
    return isReady(pod) ? String(pod['status'].podIP) : undefined
  })
}

/** A port of this machine that leads through a door to a place behind it. */
async function openTunnel(door: string, target: string): Promise<Server> {
  const server = createServer((from: Socket) => {
    const to = connect({ host: door, port: DOOR_PORT }, () => {
      to.write(`CONNECT ${target} HTTP/1.1\r\n\r\n`)
    })
    to.once('data', () => from.pipe(to).pipe(from))
    to.on('error', () => from.destroy())
    to.on('close', () => from.destroy())
    from.on('error', () => to.destroy())
    from.on('close', () => to.destroy())
  })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  return server
}
