import { existsSync, mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join, resolve } from 'node:path'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { POD_HOMES, POD_USERS } from '../../contracts/pod.ts'
import type { ImageSpec, LayerEntry } from '../../devcluster/images/image-spec.ts'
import { apiImage, podImages } from '../../devcluster/images/pod-images.ts'

const ROOT = resolve(import.meta.dirname, '../..')

/** The instructions of a Containerfile, with continued lines joined. */
function instructionsOf(name: string): { word: string; rest: string }[] {
  const text = readFileSync(join(ROOT, 'images', `${name}.Containerfile`), 'utf8')
  return text
    .replaceAll(/\\\n/g, ' ')
    .split('\n')
    .filter((line) => line !== '' && !line.startsWith('#'))
    .map((line) => ({ word: line.split(' ')[0] ?? '', rest: line.slice(line.indexOf(' ') + 1) }))
}

const CONTAINERS = [
  { name: 'agent-host', user: POD_USERS.agentHost, home: POD_HOMES.agentHost },
  { name: 'toolbox', user: POD_USERS.toolbox, home: POD_HOMES.toolbox },
  { name: 'api', user: POD_USERS.agentHost, home: '/home/api' },
]

let folder: string
let images: readonly ImageSpec[]

// A Containerfile installs other builds of the toolbox programs, so the host's programs are left out here.
const noTools = () => ({ shell: [], languages: [] })

beforeAll(async () => {
  folder = mkdtempSync(join(tmpdir(), 'containerfiles-'))
  const node = process.execPath
  images = [...(await podImages(folder, node, noTools)), await apiImage(folder, node)]
})
afterAll(() => rmSync(folder, { recursive: true, force: true }))

describe.each(CONTAINERS)('the image of $name', ({ name, user, home }) => {
  const instructions = instructionsOf(name)
  const all = (word: string) => instructions.filter((one) => one.word === word).map(({ rest }) => rest)
  let local: ImageSpec | undefined

  beforeAll(() => {
    local = images.find(
      ({ user: of, environment }) => of === `${user}:1000` && environment?.['HOME'] === home,
    )
  })

  it('stands on bases that are pinned by digest', () => {
    expect(all('FROM')).toHaveLength(2)
    for (const base of all('FROM'))
      expect(base).toMatch(/^[a-z]+:[a-z0-9-]+@sha256:[0-9a-f]{64}( AS build)?$/)
  })

  it('runs as a numeric user that is not root, whose home it says', () => {
    expect(all('USER')).toEqual([`${user}:${POD_USERS.group}`])
    expect(all('ENV')).toEqual([`HOME=${home}`])
  })

  it('takes only files of this repository', () => {
    const copied = all('COPY')
      .filter((rest) => !rest.startsWith('--from='))
      .flatMap((rest) => rest.split(' ').slice(0, -1))
    expect(copied.filter((path) => !existsSync(join(ROOT, path)))).toEqual([])
  })

  it('starts the same program as the image of the local cluster, with the same packages', () => {
    expect(all('ENTRYPOINT').map((text) => JSON.parse(text))).toEqual([local?.entrypoint])
    expect(local?.user).toBe(`${user}:${POD_USERS.group}`)
    const paths = new Set(local?.layers.flat().map(({ path }) => path))
    const packages = all('RUN')
      .join(' ')
      .matchAll(/ node_modules\/(@?[a-z-]+)(?= )/g)
    for (const [, entry] of packages)
      if (entry !== 'node') expect(paths).toContain(`opt/agentweaver/node_modules/${entry}`)
  })

  it('lets its user write only to a home, a workspace and temporary folders', () => {
    const entries = local?.layers.flat() ?? []
    const isWritable = (entry: LayerEntry) =>
      ('owner' in entry && entry.owner === user) || ('mode' in entry && ((entry.mode ?? 0) & 0o022) !== 0)
    const writable = entries.filter(isWritable).map(({ path }) => path)

    expect(entries.some(({ path }) => path === 'usr/local/bin/node')).toBe(true)
    expect(writable.sort()).toEqual(
      [home.slice(1), 'tmp', ...(name === 'toolbox' ? ['workspace'] : [])].sort(),
    )
  })

  it('contains the program that it starts', () => {
    const paths = local?.layers.flat().map(({ path }) => path)

    expect(paths).toContain(local?.entrypoint.at(-1)?.slice(1))
  })

  it('has no environment for its container but where its home is', () => {
    expect(local?.environment).toEqual({ HOME: home })
  })
})
