import { join } from 'node:path'
import type { Environment } from '../../charts-src/environment/schema.ts'
import { API_KEY_FILE } from '../../contracts/api-env.ts'
import type { ImageName } from '../../images/contents.ts'
import { makeKeys } from '../../tools/make-keys.ts'
import { thirdPartyCrds } from '../addons/third-party-crds.ts'
import { cacheRoot } from '../build/tool-cache.ts'
import type { KubeClient } from '../client/kube-client.ts'
import { installCrds } from '../client/manifests.ts'
import type { Cluster } from '../cluster.ts'
import { HarnessError } from '../harness-error.ts'
import type { ImageSpec } from '../images/image-spec.ts'
import { importArchive, importPinned } from '../images/import-images.ts'
import { apiImage, egressProxyImage, podImages } from '../images/pod-images.ts'
import { type Database, startDatabase } from './database.ts'
import { applyTree, renderChanged } from './gitops-tree.ts'
import { CONTROL_PLANE } from './names.ts'

export interface InstallTarget {
  readonly cluster: Cluster
  readonly client: KubeClient
  /** A folder with `api.tar`, `agent-host.tar`, `toolbox.tar` and `egress-proxy.tar`. Without it the images are made from this clone. */
  readonly images?: string | undefined
  /** Changes the environment before its tree is rendered. @default the committed environment */
  readonly change?: (environment: Environment) => Environment
  /** Text of the egress policy. @default the file of this repository */
  readonly egress?: string
  /** Values of the credentials that the environment names, by their ids. @default no Secret is created */
  readonly credentials?: Readonly<Record<string, string>>
}

export interface InstalledService {
  readonly apiKey: string
  readonly apiKeyFile: string
  readonly database: Database
}

/**
 * Installs the committed tree of `environments/local.json` with new keys and a PostgreSQL server. The cluster needs gVisor
 * and Cilium. The caller stops the database before the cluster.
 */
export async function installService(
  target: InstallTarget,
  say: (line: string) => void,
): Promise<InstalledService> {
  const { cluster, client, images: archives, change = (environment) => environment, egress } = target
  say('installing the definitions of the custom resources')
  await installCrds(client, await thirdPartyCrds())
  say('starting PostgreSQL')
  const database = await startDatabase(cluster.folder)
  try {
    const folder = join(cluster.folder, 'service')
    const keys = join(folder, 'keys')
    const { files, jwks } = await makeKeys(keys)
    await createSecrets(client, files, target.credentials)
    say(archives ? `importing the images in ${archives}` : 'building and importing the images of this clone')
    const images = archives ? await importBuilt(cluster, archives) : await importImages(cluster)
    say('applying the tree of environments/local.json')
    const tree = renderChanged(folder, 'local', {
      environment: (environment) => changed(change(environment), { images, jwks }),
      egress,
    })
    const { code, output } = await applyTree(cluster, [tree])
    if (code !== 0) throw new HarnessError(`the tree was not applied:\n${output}`)
    return { apiKey: files[API_KEY_FILE] ?? '', apiKeyFile: join(keys, API_KEY_FILE), database }
  } catch (error) {
    await database.stop()
    throw error
  }
}

/** The tree contains no Secrets, because on Azure the keys are in a vault. */
async function createSecrets(
  client: KubeClient,
  keys: Readonly<Record<string, string>>,
  credentials: InstallTarget['credentials'],
): Promise<void> {
  await client.create({ apiVersion: 'v1', kind: 'Namespace', metadata: { name: CONTROL_PLANE } })
  const create = async (name: string, stringData: Readonly<Record<string, string>>) => {
    const metadata = { name: `${CONTROL_PLANE}-${name}`, namespace: CONTROL_PLANE }
    await client.create({ apiVersion: 'v1', kind: 'Secret', metadata, stringData })
  }
  await create('keys', keys)
  if (credentials) await create('credentials', credentials)
}

async function importImages(cluster: Cluster) {
  const [agentHost, toolbox] = await podImages(cacheRoot(), process.execPath)
  const api = await apiImage(cacheRoot(), process.execPath)
  const proxy = await egressProxyImage(cacheRoot(), process.execPath)
  if (!agentHost || !toolbox) throw new HarnessError('a sandbox pod has two images')
  const named = (name: string, spec: ImageSpec) => ({ ...spec, reference: `localhost/agentweaver/${name}:1` })
  const specs = [
    named('api', api),
    named('agent-host', agentHost),
    named('toolbox', toolbox),
    named('egress-proxy', proxy),
  ]
  const [ofApi, ofHost, ofToolbox, ofProxy] = await importPinned(cluster, specs)
  if (!ofApi || !ofHost || !ofToolbox || !ofProxy) throw new HarnessError('an image was not imported')
  return { api: ofApi, agentHost: ofHost, toolbox: ofToolbox, egressProxy: ofProxy }
}

async function importBuilt(cluster: Cluster, folder: string) {
  const imported = async (name: ImageName) =>
    await importArchive(cluster, join(folder, `${name}.tar`), `localhost/agentweaver/${name}`)
  return {
    api: await imported('api'),
    agentHost: await imported('agent-host'),
    toolbox: await imported('toolbox'),
    egressProxy: await imported('egress-proxy'),
  }
}

type Given = { readonly images: Partial<Environment['images']>; readonly jwks: object }

/** Sets images and keys as a pipeline does. Fixed at two replicas, so load on this machine does not add a third. */
function changed(environment: Environment, { images, jwks }: Given): object {
  const { sizes } = environment
  return {
    ...environment,
    images: { ...environment.images, ...images },
    keys: { jwks },
    sizes: { ...sizes, api: { ...sizes.api, maxReplicas: sizes.api.replicas } },
  }
}
