import { execFile } from 'node:child_process'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import { CLAIM } from '../../contracts/claim.ts'
import { RUNTIME_CLASSES } from '../../contracts/labels.ts'
import { EXECUTOR_KEYS, names } from '../../contracts/names.ts'
import { messageOf } from '../../runtime/kit/errors.ts'
import { CliError } from '../cli-error.ts'
import { EXIT } from '../exit-status.ts'

const run = promisify(execFile)

/** Slice of the demo, so that its objects never collide with a deployment on the same cluster. */
export const DEMO_SLUG = 'demo-0decaf'
const { namespaces, pool } = names({ kind: 'preview', slug: DEMO_SLUG })
const NAMESPACE = namespaces.sandboxes
const MANIFEST = fileURLToPath(new URL('../../examples/local-cluster/sandboxes.yaml', import.meta.url))
/** The sandbox template mounts the executor's public keys from this ConfigMap. */
const KEYS_MAP = 'executor-keys'
const CLAIMS = `${CLAIM.plural}.${CLAIM.group}`
const KUBECTL_MS = 150_000
const WITH_CLUSTER =
  'npm run cluster -- up --gvisor --keep && npm run cluster -- exec npm run demo -- --cluster'

/** Settings of a service whose sandboxes are pods in the kubeconfig's cluster. */
export const clusterSettings = (kubeconfig: string): Readonly<Record<string, string>> => ({
  AGENTWEAVER_SANDBOXES: 'kubernetes',
  AGENTWEAVER_DEPLOYMENT_ID: DEMO_SLUG,
  AGENTWEAVER_PREVIEW_SLUG: DEMO_SLUG,
  AGENTWEAVER_RUNTIME_CLASS: RUNTIME_CLASSES.gvisor.name,
  AGENTWEAVER_KUBECONFIG: kubeconfig,
})

/** The demo's namespace; it is deleted at the end. */
export interface DemoCluster extends AsyncDisposable {
  /** Creates the namespace with the public keys and waits for a warm pod. */
  open(stateDir: string): Promise<void>
  /** Names of claims that still exist. */
  leftovers(): Promise<readonly string[]>
}

export function createDemoCluster(kubeconfig: string): DemoCluster {
  const kubectl = async (...args: string[]): Promise<string> => {
    try {
      const { stdout } = await run('kubectl', ['--kubeconfig', kubeconfig, ...args], { timeout: KUBECTL_MS })
      return stdout
    } catch (error) {
      throw unusable(args, error)
    }
  }
  const inSpace = (...args: string[]) => kubectl('-n', NAMESPACE, ...args)
  let isMade = false
  return {
    async open(stateDir) {
      isMade = true
      await kubectl('create', 'namespace', NAMESPACE)
      const keys = `--from-file=${EXECUTOR_KEYS.file}=${join(stateDir, 'keys', EXECUTOR_KEYS.file)}`
      await inSpace('create', 'configmap', KEYS_MAP, keys)
      await inSpace('apply', '-f', MANIFEST)
      const warm = `sandboxwarmpools.${CLAIM.group}/${pool('agent')}`
      await inSpace('wait', warm, '--for=jsonpath={.status.readyReplicas}=1', '--timeout=120s')
    },
    async leftovers() {
      return (await inSpace('get', CLAIMS, '-o', 'name')).split('\n').filter((name) => name !== '')
    },
    async [Symbol.asyncDispose]() {
      if (isMade) await kubectl('delete', 'namespace', NAMESPACE, '--ignore-not-found', '--timeout=60s')
    },
  }
}

const unusable = (args: readonly string[], cause: unknown) =>
  new CliError(
    `kubectl ${args.join(' ')}: ${messageOf(cause)}\nThe demo needs a cluster with gVisor, the agent-sandbox controller and the images of this project:\n  ${WITH_CLUSTER}`,
    { status: EXIT.unreachable },
  )
