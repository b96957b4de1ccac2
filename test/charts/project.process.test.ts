import { execFileSync, spawnSync } from 'node:child_process'
import {
  appendFileSync,
  cpSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import {
  compareProject,
  orphanTrees,
  type Project,
  type Rendered,
  renderProject,
  writeProject,
} from '../../charts-src/tree/synth.ts'
import { recoverTree, writeTree } from '../../charts-src/tree/write-tree.ts'
import { readEgressPolicyText } from '../../policies/agent/egress/load.ts'
import { environmentText, type Loose, PROXY_SIZE, policyTextWithRepository, ROOT } from './fixture.ts'

const WRITER = join(ROOT, 'test/charts/fixtures/killed-writer.ts')
const NAMESPACE = 'foundation/_cluster/Namespace.agentweaver.yaml'

describe('the trees of a project', () => {
  let project: Project
  let trees: readonly Rendered[]
  const at = (...path: string[]) => join(project.root, ...path)

  beforeEach(() => {
    project = { root: mkdtempSync(join(tmpdir(), 'agentweaver-project-')) }
    mkdirSync(at('environments'))
    writeFileSync(at('environments/dev.json'), environmentText('dev'))
    const rendering = renderProject(project, ['dev'])
    if (!rendering.ok) throw new Error(rendering.mistakes.join('\n'))
    trees = rendering.trees
    writeProject(project, trees)
  })
  afterEach(() => rmSync(project.root, { recursive: true, force: true }))

  const differences = () => compareProject(project, trees).get('dev')

  it('are not written again when nothing has changed', () => {
    expect(differences()).toEqual([])
    expect(writeProject(project, trees)).toEqual([])
  })

  it('are compared without being touched, also while another process exchanges one', () => {
    renameSync(at('gitops/dev'), at('gitops/.dev.old'))
    mkdirSync(at('gitops/.dev.4711.new'))

    expect(differences()).toEqual([])
    expect(readdirSync(at('gitops')).sort()).toEqual(['.dev.4711.new', '.dev.old'])
  })

  it('have a hand-edited file named, with the difference', () => {
    const file = at('gitops/dev', NAMESPACE)
    writeFileSync(file, readFileSync(file, 'utf8').replace('enforce: restricted', 'enforce: privileged'))

    expect(differences()).toEqual([
      {
        path: NAMESPACE,
        what: 'changed',
        lines: expect.arrayContaining([
          '-     pod-security.kubernetes.io/enforce: privileged',
          '+     pod-security.kubernetes.io/enforce: restricted',
        ]),
      },
    ])
  })

  it('have a file that is missing, one too many and a link named', () => {
    rmSync(at('gitops/dev', NAMESPACE))
    writeFileSync(at('gitops/dev/network/extra.yaml'), 'kind: NetworkPolicy\n')
    rmSync(at('gitops/dev/kustomization.yaml'))
    symlinkSync('/dev/null', at('gitops/dev/kustomization.yaml'))

    expect(differences()?.map(({ path, what }) => [path, what])).toEqual([
      [NAMESPACE, 'missing'],
      ['kustomization.yaml', 'not a file'],
      ['network/extra.yaml', 'extra'],
    ])
  })

  it('show every kind of hand edit on the command line, and fail', () => {
    const copy = join(project.root, 'clone')
    mkdirSync(copy)
    for (const name of [
      'charts-src',
      'contracts',
      'policies',
      'reachability',
      'environments',
      'gitops',
      'package.json',
    ]) {
      cpSync(join(ROOT, name), join(copy, name), { recursive: true })
    }
    symlinkSync(join(ROOT, 'node_modules'), join(copy, 'node_modules'))
    execFileSync(process.execPath, [join(copy, 'charts-src/main.ts')])
    appendFileSync(join(copy, 'gitops/prod', NAMESPACE), 'extra: true\n')

    const check = spawnSync(process.execPath, [join(copy, 'charts-src/main.ts'), '--check'], {
      encoding: 'utf8',
    })

    expect(check.stdout).toBe(`gitops/prod/${NAMESPACE}: changed\n${context(check.stdout)}`)
    expect(check.stdout).toContain('  - extra: true')
    expect(check.stderr).toContain('1 files differ; npm run synth writes them')
    expect(check.status).toBe(1)
  })

  it('are all left alone when one environment has a mistake', () => {
    const before = readdirSync(at('gitops/dev'), { recursive: true })
    writeFileSync(at('environments/prod.json'), environmentText('prod').replace('"kata"', '"docker"'))
    writeFileSync(at('environments/dev.json'), environmentText('dev').replace('"proxy"', '"open"'))

    const rendering = renderProject(project, ['dev', 'prod', 'absent'])

    expect(rendering).toEqual({
      ok: false,
      mistakes: [
        expect.stringContaining('environments/dev.json: egress.mode: '),
        expect.stringContaining('environments/prod.json: isolation: '),
        'environments/absent.json: there is no such file',
      ],
    })
    expect(readdirSync(at('gitops/dev'), { recursive: true })).toEqual(before)
  })

  it('are unchanged if the egress policy has a wildcard for a shared domain, which is reported with the other mistakes', () => {
    const egress = readEgressPolicyText().replace('host: api.github.com', 'host: "*.vault.azure.net"')
    writeFileSync(at('environments/dev.json'), environmentText('dev').replace('"proxy"', '"open"'))

    const rendering = renderProject({ ...project, egress }, ['dev'])

    expect(rendering).toEqual({
      ok: false,
      mistakes: [
        expect.stringContaining('environments/dev.json: egress.mode: '),
        expect.stringMatching(
          /^policies\/agent\/egress\.yaml, line \d+: .*use the name of your vault: <vault>/,
        ),
      ],
    })
    expect(differences()).toEqual([])
  })

  it('are unchanged if the proxy would not insert the tokens of owners, which nothing else can read', () => {
    const egress = readEgressPolicyText().replace(/^ +accepts: github\n/m, '')
    const local = environmentText('local')
    writeFileSync(at('environments/local.json'), local)

    expect(renderProject({ ...project, egress }, ['dev'])).toEqual({
      ok: false,
      mistakes: [expect.stringMatching(/^environments\/dev\.json: models\.copilot: .*"accepts: github"$/)],
    })
    expect(JSON.parse(local)).toMatchObject({ models: { copilot: {} } })
    expect(renderProject({ ...project, egress }, ['local'])).toMatchObject({ ok: true })
    expect(differences()).toEqual([])
  })

  it('are unchanged if people would be asked for a credential that nothing inserts', () => {
    const egress = policyTextWithRepository()
    const write = (change: (value: Loose) => void) => {
      const value = JSON.parse(environmentText('local')) as Loose
      change(value)
      writeFileSync(at('environments/local.json'), JSON.stringify(value))
    }

    write(() => undefined)
    expect(renderProject({ ...project, egress }, ['local'])).toEqual({
      ok: false,
      mistakes: [
        expect.stringMatching(
          /^environments\/local\.json: egress\.credentials: is missing, .* names github, /,
        ),
      ],
    })
    write((value) => {
      value['egress'].credentials = []
      value['sizes'].egressProxy.credentials = PROXY_SIZE.container
    })
    expect(renderProject({ ...project, egress }, ['local'])).toMatchObject({ ok: true })
    // On Azure, the container for credentials is always there.
    expect(renderProject({ ...project, egress }, ['dev'])).toMatchObject({ ok: true })
  })

  it('are reported if their environment no longer exists', () => {
    mkdirSync(at('gitops/staging'))

    expect(orphanTrees(project)).toEqual(['staging'])
  })
})

/** Returns everything except the first line. */
const context = (output: string) => output.slice(output.indexOf('\n') + 1)

describe('a tree whose writer is killed', () => {
  let parent: string
  let folder: string

  beforeEach(() => {
    parent = mkdtempSync(join(tmpdir(), 'agentweaver-killed-'))
    folder = join(parent, 'dev')
    writeTree(folder, new Map([['a/old.yaml', 'old\n']]))
  })
  afterEach(() => rmSync(parent, { recursive: true, force: true }))

  it.each([
    ['staged', 'a/old.yaml'],
    ['set aside', 'a/old.yaml'],
    ['in place', 'a/new.yaml'],
  ])('is whole after the step "%s": it holds %s alone', (step, expected) => {
    const { signal } = spawnSync(process.execPath, [WRITER, folder, step])

    recoverTree(folder)

    expect(signal).toBe('SIGKILL')
    expect(readdirSync(join(folder, 'a')).map((name) => `a/${name}`)).toEqual([expected])
    expect(readdirSync(parent)).toEqual(['dev'])
  })

  it('is whole at once, except for the moment between two renames', () => {
    spawnSync(process.execPath, [WRITER, folder, 'staged'])

    expect(readFileSync(join(folder, 'a/old.yaml'), 'utf8')).toBe('old\n')
  })

  it('is replaced as a whole by a writer that is left alone', () => {
    execFileSync(process.execPath, [WRITER, folder])

    expect(readdirSync(join(folder, 'a'))).toEqual(['new.yaml'])
    expect(existsSync(join(parent, '.dev.old'))).toBe(false)
  })
})
