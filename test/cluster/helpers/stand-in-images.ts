import { existsSync, mkdtempSync, rmSync } from 'node:fs'
import { join } from 'node:path'
import { AGENT_HOST_PORT } from '../../../contracts/ports.ts'
import type { Cluster } from '../../../devcluster/cluster.ts'
import { runCommand } from '../../../devcluster/host/run-command.ts'
import { readState } from '../../../devcluster/host/run-folder.ts'
import type { ImageSpec } from '../../../devcluster/images/image-spec.ts'
import { writeImages } from '../../../devcluster/images/oci-layout.ts'
import { toolboxImage } from '../../../devcluster/images/toolbox.ts'
import { CONTAINERD_SOCKET } from '../../../devcluster/node/containerd-config.ts'

const IMPORT_MS = 120_000

/** The entry points that stand for the real programs: one answers the probes, one waits. */
const ENTRIES = {
  agentHost: ['/bin/busybox', 'httpd', '-f', '-p', String(AGENT_HOST_PORT), '-h', '/srv/www'],
  toolbox: ['/bin/busybox', 'sleep', '1000000'],
} as const

/** Puts images on the node under the digests that a tree pins, as a registry would; answers their names. */
export async function importStandIns(cluster: Cluster): Promise<Record<keyof typeof ENTRIES, string>> {
  const { layers, user } = toolboxImage(process.execPath)
  const specs = Object.entries(ENTRIES).map(([name, entrypoint]) => ({
    reference: `localhost/agentweaver/${name.toLowerCase()}:1`,
    layers,
    entrypoint,
    user,
  }))
  const [agentHost, toolbox] = await importPinned(cluster, specs)
  if (!agentHost || !toolbox) throw new Error('the layout lacks an image')
  return { agentHost, toolbox }
}

/** Imports images and answers the names that pin them, in their order. */
export async function importPinned(cluster: Cluster, specs: readonly ImageSpec[]): Promise<string[]> {
  // A node sees the cluster's own folder, and no other temporary one.
  const folder = mkdtempSync(join(cluster.folder, 'images-'))
  try {
    const written = await writeImages(join(folder, 'layout'), specs)
    const archive = join(folder, 'images.tar')
    await runCommand(['tar', '-C', join(folder, 'layout'), '-cf', archive, '.'], IMPORT_MS)
    await onNode(cluster, ['import', '--local', archive])
    return await Promise.all(
      written.map(async ({ reference, digest }) => {
        const pinned = `${reference.replace(/:1$/, '')}@${digest}`
        await onNode(cluster, ['tag', reference, pinned])
        return pinned
      }),
    )
  } finally {
    rmSync(folder, { recursive: true, force: true })
  }
}

async function onNode({ folder, binFolders }: Cluster, args: readonly string[]): Promise<void> {
  const pid = readState(folder)?.nodes[0]?.pid
  if (!pid) throw new Error('the cluster has no node')
  const ctr = binFolders.map((bin) => join(bin, 'ctr')).find((path) => existsSync(path)) ?? 'ctr'
  const inside = ['nsenter', '-t', String(pid), '-m', '-n', '-p', '--']
  await runCommand([...inside, ctr, '-a', CONTAINERD_SOCKET, '-n', 'k8s.io', 'images', ...args], IMPORT_MS)
}
