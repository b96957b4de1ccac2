import { execFile } from 'node:child_process'
import { once } from 'node:events'
import { cp, mkdir, mkdtemp, readdir, readFile, realpath, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { promisify } from 'node:util'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { installInto, npm, packInto, ROOT, type Tarball } from './installed.ts'

/** The lowest Node of `engines`; npm knows each Node as a package. */
const LOWEST = '22.18.0'
const MAX_BYTES = 4_000_000
const PACKED =
  /^(?:package\.json|README\.md|LICENSE|cli\/bin\.js|dist\/npm\/(?:[\w-]+\.(?:js|wasm)|THIRD-PARTY-LICENSES\.txt)|examples\/.+|policies\/agent\/\w+\.yaml)$/

let folder: string
let tarball: Tarball
let installed: Awaited<ReturnType<typeof installInto>>
const nodes = new Map<string, string | undefined>([['the pinned Node', process.execPath]])

beforeAll(async () => {
  folder = await realpath(await mkdtemp(join(tmpdir(), 'aw-package-')))
  tarball = await packInto(folder)
  installed = await installInto(join(folder, 'installed'), tarball.path)
  nodes.set('the lowest Node', await installNode(join(folder, 'lowest')))
}, 600_000)

afterAll(() => rm(folder, { recursive: true, force: true }))

/** A Node from the registry; undefined where the registry does not have it. */
async function installNode(place: string): Promise<string | undefined> {
  await mkdir(place)
  await writeFile(join(place, 'package.json'), '{ "private": true, "allowScripts": { "node": true } }\n')
  try {
    await npm(['install', '--prefer-offline', `node@${LOWEST}`], place)
    return join(place, 'node_modules/node/bin/node')
  } catch (error) {
    if (/\b(?:E404|ETARGET)\b/.test(String(error))) return undefined
    throw error
  }
}

describe('the tarball', () => {
  test('contains the built programs and their data files, but no source and no tests', () => {
    expect(tarball.files.filter((file) => !PACKED.test(file))).toEqual([])
    expect(tarball.files.filter((file) => file.endsWith('.ts'))).toEqual([])
  })

  test('names nothing of the machine that packed it', async () => {
    const place = join(folder, 'installed/node_modules/agentweaver-sandbox')
    const names = (await readdir(place, { recursive: true })).filter((name) =>
      /\.(?:js|json|txt)$/.test(name),
    )
    const texts = await Promise.all(names.map((name) => readFile(join(place, name), 'utf8')))
    const registry = new URL((await npm(['config', 'get', 'registry'], ROOT)).trim()).host
    const own = [ROOT, registry].filter((word) => word !== 'registry.npmjs.org')

    expect(names).toContain('dist/npm/cli.js')
    expect(own.filter((word) => texts.some((content) => content.includes(word)))).toEqual([])
  })

  test('stays small', () => {
    expect(tarball.bytes).toBeLessThan(MAX_BYTES)
  })

  test('installs only packages with native code', async () => {
    const { dependencies } = JSON.parse(await readFile(join(ROOT, 'package.json'), 'utf8'))

    expect(Object.keys(dependencies)).toEqual(['@github/copilot-sdk', 'koffi'])
  })

  test('brings the licences of the packages that are bundled', async () => {
    const place = join(folder, 'installed/node_modules/agentweaver-sandbox/dist/npm/THIRD-PARTY-LICENSES.txt')
    const licences = await readFile(place, 'utf8')

    for (const name of [
      'fastify',
      'zod',
      'undici',
      'commander',
      '@kubernetes/client-node',
      'web-tree-sitter',
    ])
      expect(licences).toMatch(new RegExp(`^${name} \\d+\\.\\d+\\.\\d+ \\(\\S+\\)$`, 'm'))
  })
})

describe.each([['the pinned Node'], ['the lowest Node']])('installed into an empty folder, on %s', (name) => {
  const nodeOr = (skip: (why: string) => never): string =>
    nodes.get(name) ?? skip(`the registry has no node@${LOWEST}`)

  test('prints its version', async ({ skip }) => {
    const { version } = JSON.parse(await readFile(join(ROOT, 'package.json'), 'utf8'))

    const { stdout, status } = await installed.run(nodeOr(skip), ['--version'])

    expect({ stdout, status }).toEqual({ stdout: `${version}\n`, status: 0 })
  })

  test('doctor finds this Node and a way to isolate', async ({ skip }) => {
    const node = nodeOr(skip)
    const version = (await promisify(execFile)(node, ['--version'])).stdout.trim().slice(1)

    const { stdout, status } = await installed.run(node, ['doctor', '--json'])

    const { findings } = JSON.parse(stdout) as {
      findings: { about: string; state: string; detail: string }[]
    }
    expect(status).toBe(0)
    expect(findings).toContainEqual({ about: 'node', state: 'ok', detail: version })
    expect(findings).toContainEqual(expect.objectContaining({ about: 'isolation', state: 'ok' }))
  })

  test('plays the demo to its end', async ({ skip }) => {
    const { stdout, status } = await installed.run(nodeOr(skip), ['demo', '--yes'])

    expect(stdout).toContain('Every check passed; no process and no file is left.')
    expect(status).toBe(0)
  })

  test('runs a plan in a workspace without a service', async ({ skip }) => {
    const node = nodeOr(skip)
    const workspace = join(folder, `workspace-${name.replaceAll(' ', '-')}`)
    const plan = join(folder, 'plan.json')
    const write = { kind: 'tool', tool: 'create', arguments: { path: 'note.txt', file_text: 'written\n' } }
    const command = { kind: 'tool', tool: 'run_command', arguments: { command: 'cat note.txt >copy.txt' } }
    await mkdir(workspace)
    await writeFile(plan, JSON.stringify({ turns: [[write, command]] }))

    const { stdout, stderr, status } = await installed.run(node, [
      ...['run', 'leave a note', '--workspace', workspace, '--plan', plan, '--json'],
    ])

    expect({ status, stderr: status === 0 ? '' : stderr + stdout }).toEqual({ status: 0, stderr: '' })
    expect(await readFile(join(workspace, 'copy.txt'), 'utf8')).toBe('written\n')
  })

  test('serves other commands until it is stopped', async ({ skip, onTestFinished }) => {
    const node = nodeOr(skip)
    const child = installed.start(node, ['serve', '--json'])
    const [ready = ''] = (await once(createInterface({ input: child.stdout }), 'line')) as string[]
    const { pid } = JSON.parse(ready) as { pid: number }
    onTestFinished(() => {
      if (child.exitCode === null) process.kill(pid, 'SIGKILL')
    })
    const exited = once(child, 'exit')

    const { stdout, status } = await installed.run(node, ['runs', '--json'])
    process.kill(pid, 'SIGTERM')

    expect(JSON.parse(stdout)).toEqual({ items: expect.any(Array) })
    expect(status).toBe(0)
    expect(await exited).toEqual([0, null])
  })
})

test('says which Node it needs on an older one', async () => {
  const place = join(folder, 'older')
  await mkdir(place)
  await cp(join(ROOT, 'cli/bin.js'), join(place, 'cli/bin.js'))
  await writeFile(join(place, 'package.json'), '{ "type": "module", "engines": { "node": ">=99.5" } }')

  const failed = await promisify(execFile)(process.execPath, [join(place, 'cli/bin.js')]).catch(
    (error: unknown) => error,
  )

  expect(failed).toMatchObject({
    code: 1,
    stderr: `agentweaver: Node ${process.versions.node} is too old: install Node 99.5 or newer, and run it again.\n`,
  })
})
