import { existsSync, mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join, relative, resolve } from 'node:path'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { POD_HOMES, POD_USERS } from '../../contracts/pod.ts'
import { imageConfig, instructionsOf } from '../../devcluster/images/containerfile.ts'
import type { ImageSpec, LayerEntry } from '../../devcluster/images/image-spec.ts'
import { apiImage, egressProxyImage, podImages } from '../../devcluster/images/pod-images.ts'
import { stageImage } from '../../images/stage.ts'
import { PACKAGES } from '../../tools/bundle.ts'

const ROOT = resolve(import.meta.dirname, '../..')

const CONTAINERS = [
  { name: 'agent-host', user: POD_USERS.agentHost, home: POD_HOMES.agentHost },
  { name: 'toolbox', user: POD_USERS.toolbox, home: POD_HOMES.toolbox },
  { name: 'api', user: POD_USERS.agentHost, home: '/home/api' },
  { name: 'egress-proxy', user: POD_USERS.agentHost, home: '/home/egress-proxy' },
] as const

/** Of the packages that are not bundled, the ones that each program names. The API creates no agent, so it never loads the last one. */
const NAMED = {
  'agent-host': ['koffi', '@github/copilot-sdk'],
  toolbox: ['koffi'],
  api: ['@github/copilot-sdk'],
  'egress-proxy': [],
} as const

function dependenciesOf(name: string): string[] {
  const file = join(ROOT, 'node_modules', name, 'package.json')
  const { dependencies = {} } = JSON.parse(readFileSync(file, 'utf8')) as { dependencies?: object }
  return Object.keys(dependencies)
}

let folder: string
let images: readonly ImageSpec[]

// A Containerfile installs the toolbox's commands from Debian, so they are not compared here.
const noTools = () => ({ shell: [], languages: [] })

beforeAll(async () => {
  folder = mkdtempSync(join(tmpdir(), 'containerfiles-'))
  const node = process.execPath
  images = [
    ...(await podImages(folder, node, noTools)),
    await apiImage(folder, node),
    await egressProxyImage(folder, node),
  ]
})
afterAll(() => rmSync(folder, { recursive: true, force: true }))

describe.each(CONTAINERS)('image $name', ({ name, user, home }) => {
  const instructions = instructionsOf(name)
  const all = (word: string) => instructions.filter((one) => one.word === word).map(({ rest }) => rest)
  let local: ImageSpec | undefined

  beforeAll(() => {
    local = images.find(
      ({ user: of, environment }) => of === `${user}:1000` && environment?.['HOME'] === home,
    )
  })

  it('has two bases that are pinned by digest and can be replaced by build arguments', () => {
    expect(all('FROM')).toEqual([`\${BUILD_BASE} AS build`, `\${BASE}`])
    expect(all('ARG')).toHaveLength(2)
    for (const base of all('ARG'))
      expect(base).toMatch(/^(BUILD_)?BASE=[a-z]+:[a-z0-9-]+@sha256:[0-9a-f]{64}$/)
  })

  it('runs as a numeric user other than root and sets its home folder', () => {
    expect(all('USER')).toEqual([`${user}:${POD_USERS.group}`])
    expect(all('ENV')).toEqual([`HOME=${home}`])
  })

  it('copies only files that exist in this repository', () => {
    const copied = all('COPY')
      .filter((rest) => !rest.startsWith('--from='))
      .flatMap((rest) => rest.split(' ').slice(0, -1))
    expect(copied.filter((path) => !existsSync(join(ROOT, path)))).toEqual([])
  })

  it('starts in the same way when it is built locally', () => {
    expect(local).toMatchObject(imageConfig(name))
    expect(all('ENTRYPOINT').map((text) => JSON.parse(text))).toEqual([local?.entrypoint])
    expect(local?.user).toBe(`${user}:${POD_USERS.group}`)
  })

  it('has the same files in both builds, on top of the base', () => {
    const out = join(folder, name)
    const server = local?.layers.flat().find(({ path }) => /\/server\.[cm]js$/.test(path))
    stageImage(name, out, server?.kind === 'file' ? join(server.source, '../..') : '')
    const staged = readdirSync(out, { recursive: true, withFileTypes: true })
      .filter((entry) => !entry.isDirectory())
      .map((entry) => relative(out, join(entry.parentPath, entry.name)))
    const paths = new Set(local?.layers.flat().map(({ path }) => path))

    expect(staged).toContain('usr/local/bin/node')
    expect(staged.filter((path) => !paths.has(path))).toEqual([])
    expect(all('RUN').some((text) => text.includes(`images/stage.ts ${name} /out`))).toBe(true)
  })

  it('lets its user write only the home folder, the workspace and /tmp', () => {
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

  it('contains the packages that its program loads at run time, with their dependencies', () => {
    const entries = local?.layers.flat() ?? []
    const program = entries.filter(
      (entry) => entry.kind === 'file' && /^opt\/agentweaver\/[\w-]+\/[^/]+\.[cm]js$/.test(entry.path),
    )
    const text = program
      .map((entry) => (entry.kind === 'file' ? readFileSync(entry.source, 'utf8') : ''))
      .join()
    const named = PACKAGES.filter((one) =>
      new RegExp(`(?:require|import)\\("${one}"\\)|from ?"${one}"`).test(text),
    )

    expect(program.length).toBeGreaterThan(0)
    expect(named).toEqual(NAMED[name])
    const paths = new Set(entries.map(({ path }) => path))
    const loaded = name === 'api' ? [] : named
    for (const one of loaded.flatMap((first) => [first, ...dependenciesOf(first)]))
      expect(paths).toContain(`opt/agentweaver/node_modules/${one}/package.json`)
  })

  it('sets no environment variable except HOME', () => {
    expect(local?.environment).toEqual({ HOME: home })
  })
})
