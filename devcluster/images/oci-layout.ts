import { createHash } from 'node:crypto'
import { existsSync, mkdirSync, readFileSync, renameSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import type { ImageSpec } from './image-spec.ts'
import { type Blob, writeLayer } from './layer.ts'

const MEDIA = {
  index: 'application/vnd.oci.image.index.v1+json',
  manifest: 'application/vnd.oci.image.manifest.v1+json',
  config: 'application/vnd.oci.image.config.v1+json',
  layer: 'application/vnd.oci.image.layer.v1.tar',
} as const

const EPOCH = '1970-01-01T00:00:00Z'

export interface WrittenImage {
  readonly reference: string
  /** Digest of the manifest: the value after `@` in a pod spec. */
  readonly digest: string
}

interface Descriptor extends Blob {
  readonly mediaType: string
  readonly annotations?: Readonly<Record<string, string>>
}

/**
 * Adds images to an OCI image layout, a folder that registry clients can push. Keeps existing images, except for those
 * with the same reference.
 */
export async function writeImages(folder: string, specs: readonly ImageSpec[]): Promise<WrittenImage[]> {
  mkdirSync(join(folder, 'blobs', 'sha256'), { recursive: true })
  writeFileSync(join(folder, 'oci-layout'), JSON.stringify({ imageLayoutVersion: '1.0.0' }))
  const written: Descriptor[] = []
  for (const spec of specs) written.push(await writeImage(folder, spec))
  const references = new Set(specs.map(({ reference }) => reference))
  const kept = readIndex(folder).filter(({ annotations }) => !references.has(referenceOf(annotations)))
  const manifests = [...kept, ...written].sort((a, b) =>
    referenceOf(a.annotations) < referenceOf(b.annotations) ? -1 : 1,
  )
  writeFileSync(
    join(folder, 'index.json'),
    JSON.stringify({ schemaVersion: 2, mediaType: MEDIA.index, manifests }),
  )
  return written.map(({ annotations, digest }) => ({ reference: referenceOf(annotations), digest }))
}

const REFERENCE = 'org.opencontainers.image.ref.name'

function referenceOf(annotations: Readonly<Record<string, string>> = {}): string {
  return annotations[REFERENCE] ?? ''
}

function readIndex(folder: string): Descriptor[] {
  const path = join(folder, 'index.json')
  return existsSync(path)
    ? (JSON.parse(readFileSync(path, 'utf8')) as { manifests: Descriptor[] }).manifests
    : []
}

async function writeImage(folder: string, spec: ImageSpec): Promise<Descriptor> {
  const layers: Descriptor[] = []
  for (const entries of spec.layers) layers.push(await storeLayer(folder, entries))
  const config = storeJson(folder, MEDIA.config, configOf(spec, layers))
  const manifest = { schemaVersion: 2, mediaType: MEDIA.manifest, config, layers }
  return {
    ...storeJson(folder, MEDIA.manifest, manifest),
    // containerd reads the image name from its own annotation. Other tools read the standard annotation.
    annotations: { 'io.containerd.image.name': spec.reference, [REFERENCE]: spec.reference },
  }
}

async function storeLayer(folder: string, entries: ImageSpec['layers'][number]): Promise<Descriptor> {
  const temporary = join(folder, 'blobs', `layer-${process.pid}`)
  const blob = await writeLayer(entries, temporary)
  renameSync(temporary, blobPath(folder, blob.digest))
  return { mediaType: MEDIA.layer, ...blob }
}

function storeJson(folder: string, mediaType: string, value: unknown): Descriptor {
  const bytes = Buffer.from(JSON.stringify(value))
  const digest = `sha256:${createHash('sha256').update(bytes).digest('hex')}`
  writeFileSync(blobPath(folder, digest), bytes)
  return { mediaType, digest, size: bytes.length }
}

function blobPath(folder: string, digest: string): string {
  return join(folder, 'blobs', ...digest.split(':'))
}

function configOf(spec: ImageSpec, layers: readonly Blob[]) {
  const { entrypoint, command, environment = {}, user, workingFolder = '/', labels = {} } = spec
  return {
    architecture: { x64: 'amd64', arm64: 'arm64' }[process.arch as 'x64' | 'arm64'],
    os: 'linux',
    created: EPOCH,
    config: {
      User: user,
      Env: Object.entries({ PATH: '/usr/local/bin:/usr/bin:/bin', ...environment }).map((pair) =>
        pair.join('='),
      ),
      Entrypoint: entrypoint,
      ...(command ? { Cmd: command } : {}),
      WorkingDir: workingFolder,
      Labels: labels,
    },
    rootfs: { type: 'layers', diff_ids: layers.map(({ digest }) => digest) },
    history: layers.map(() => ({ created: EPOCH, created_by: 'agentweaver' })),
  }
}
