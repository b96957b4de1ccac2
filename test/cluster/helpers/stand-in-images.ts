import { AGENT_HOST_PORT } from '../../../contracts/ports.ts'
import type { Cluster } from '../../../devcluster/cluster.ts'
import { importPinned } from '../../../devcluster/images/import-images.ts'
import { toolboxImage } from '../../../devcluster/images/toolbox.ts'

/** Entry points that replace the real programs: the first responds to the probes, the second waits. */
const ENTRIES = {
  agentHost: ['/bin/busybox', 'httpd', '-f', '-p', String(AGENT_HOST_PORT), '-h', '/srv/www'],
  toolbox: ['/bin/busybox', 'sleep', '1000000'],
} as const

/** Imports images on the node under the digests that a tree pins, in place of a registry, and returns their names. */
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
