import { mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, utimesSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { imageArchive } from '../../devcluster/images/image-archive.ts'
import type { ImageSpec, LayerEntry } from '../../devcluster/images/image-spec.ts'
import { writeImages } from '../../devcluster/images/oci-layout.ts'
import { completeLayer } from '../../devcluster/images/program-files.ts'

describe('an image', () => {
  let folder: string

  beforeEach(() => {
    folder = mkdtempSync(join(tmpdir(), 'images-'))
    writeFileSync(join(folder, 'program'), '#!/bin/sh\n')
  })
  afterEach(() => rmSync(folder, { recursive: true, force: true }))

  function anImage(entries: readonly LayerEntry[] = []): ImageSpec {
    const program: LayerEntry = {
      kind: 'file',
      path: 'bin/program',
      source: join(folder, 'program'),
      executable: true,
    }
    return {
      reference: 'localhost/test:1',
      layers: [completeLayer([program, { kind: 'link', path: 'bin/sh', target: 'program' }, ...entries])],
      entrypoint: ['/bin/program'],
      user: '1000:1000',
      labels: { team: 'a' },
    }
  }

  const layout = (name: string) => join(folder, name)
  const blob = (name: string, digest: string) =>
    readFileSync(join(layout(name), 'blobs', ...digest.split(':')))

  it('has the same digest for every path and time', async () => {
    const [first] = await writeImages(layout('a'), [anImage()])
    utimesSync(join(folder, 'program'), new Date(), new Date(1))

    const [second] = await writeImages(layout('b'), [anImage()])

    expect(second?.digest).toBe(first?.digest)
  })

  it('has another digest when a byte, a mode or a setting changes', async () => {
    const spec = anImage()
    const variants = [
      spec,
      anImage([{ kind: 'text', path: 'etc/extra', text: '' }]),
      { ...spec, user: '0' },
      { ...spec, labels: {} },
      {
        ...spec,
        layers: [
          spec.layers[0]!.map((entry) => (entry.kind === 'file' ? { ...entry, executable: false } : entry)),
        ],
      },
    ]

    const written = await Promise.all(
      variants.map((variant, index) => writeImages(layout(String(index)), [variant])),
    )

    expect(new Set(written.map(([image]) => image?.digest)).size).toBe(variants.length)
  })

  it('contains its user, entry point and labels', async () => {
    const [image] = await writeImages(layout('a'), [anImage()])

    const manifest = JSON.parse(blob('a', image!.digest).toString()) as { config: { digest: string } }
    const { config } = JSON.parse(blob('a', manifest.config.digest).toString())
    expect(config).toMatchObject({ User: '1000:1000', Entrypoint: ['/bin/program'], Labels: { team: 'a' } })
  })

  it('replaces only the image with the same reference in a layout', async () => {
    await writeImages(layout('a'), [anImage(), { ...anImage(), reference: 'localhost/other:1' }])

    await writeImages(layout('a'), [{ ...anImage(), user: '0' }])

    const index = JSON.parse(readFileSync(join(layout('a'), 'index.json'), 'utf8')) as {
      manifests: { annotations: Record<string, string> }[]
    }
    expect(
      index.manifests.map(({ annotations }) => annotations['org.opencontainers.image.ref.name']),
    ).toEqual(['localhost/other:1', 'localhost/test:1'])
  })

  it('is cached as one archive, and archives unused for an hour are removed', async () => {
    const cache = join(folder, 'images')
    mkdirSync(cache)
    for (const name of [
      'localhost-test-1-old.tar',
      'localhost-test-1-new.tar',
      'localhost-other-1-old.tar',
    ]) {
      writeFileSync(join(cache, name), '')
    }
    for (const name of ['localhost-test-1-old.tar', 'localhost-other-1-old.tar'])
      utimesSync(join(cache, name), 1, 1)

    const archive = await imageArchive(folder, anImage())

    expect(await imageArchive(folder, anImage())).toBe(archive)
    const own = archive.split('/').at(-1)
    expect(readdirSync(cache).sort()).toEqual(
      ['localhost-other-1-old.tar', 'localhost-test-1-new.tar', own].sort(),
    )
  })

  it('contains an entry for every folder exactly once', () => {
    const paths = completeLayer(anImage([{ kind: 'text', path: 'bin/deep/down', text: '' }]).layers[0]!).map(
      ({ path }) => path,
    )

    expect(paths.filter((path) => path === 'bin')).toHaveLength(1)
    expect(paths).toContain('bin/deep')
  })
})
