import { copyFileSync, existsSync, mkdtempSync, rmSync } from 'node:fs'
import { join } from 'node:path'
import type { Cluster } from '../cluster.ts'
import { HarnessError } from '../harness-error.ts'
import { runCommand } from '../host/run-command.ts'
import { readState } from '../host/run-folder.ts'
import { CONTAINERD_SOCKET } from '../node/containerd-config.ts'
import type { ImageSpec } from './image-spec.ts'
import { writeImages } from './oci-layout.ts'

const IMPORT_MS = 120_000

/** Imports images into the first node and returns their references by digest, in the same order. */
export async function importPinned(cluster: Cluster, specs: readonly ImageSpec[]): Promise<string[]> {
  // A node sees only the cluster's own temporary folder.
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

/**
 * Imports an archive of one image (OCI layout, as written by `buildah push … oci-archive:FILE` or `docker save`) and
 * returns the name that pins it by digest.
 */
export async function importArchive(cluster: Cluster, archive: string, name: string): Promise<string> {
  const folder = mkdtempSync(join(cluster.folder, 'archive-'))
  try {
    const copy = join(folder, 'image.tar')
    copyFileSync(archive, copy)
    const index = JSON.parse(await runCommand(['tar', '-xOf', copy, 'index.json'])) as Index
    const [manifest, ...others] = index.manifests
    if (!manifest || others.length > 0) throw new HarnessError(`${archive} must contain exactly one image`)
    await onNode(cluster, ['import', '--local', '--base-name', name, '--digests', copy])
    return `${name}@${manifest.digest}`
  } finally {
    rmSync(folder, { recursive: true, force: true })
  }
}

interface Index {
  readonly manifests: readonly { readonly digest: string }[]
}

async function onNode({ folder, binFolders }: Cluster, args: readonly string[]): Promise<void> {
  const pid = readState(folder)?.nodes[0]?.pid
  if (!pid) throw new HarnessError('the cluster has no node')
  const ctr = binFolders.map((bin) => join(bin, 'ctr')).find((path) => existsSync(path)) ?? 'ctr'
  const inside = ['nsenter', '-t', String(pid), '-m', '-n', '-p', '--']
  await runCommand([...inside, ctr, '-a', CONTAINERD_SOCKET, '-n', 'k8s.io', 'images', ...args], IMPORT_MS)
}
