import { execFile, execFileSync } from 'node:child_process'
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import type { ClusterSummary } from '../../../devcluster/commands/up.ts'
import { whyNoNodes } from '../../../devcluster/host/privileges.ts'
import { instructionsOf } from '../../../devcluster/images/containerfile.ts'
import { IMAGE_NAMES } from '../../../images/contents.ts'
import { errnoOf, messageOf } from '../../../runtime/kit/errors.ts'
import { runAgentweaver, runCommand } from './command.ts'

const execFileAsync = promisify(execFile)
const ROOT = join(import.meta.dirname, '..', '..', '..')
const BUILD_MS = 3_600_000
const PULL_MS = 600_000

/** Base images other than the pinned ones, for a machine without access to the public registry. */
const BASES: Readonly<Record<string, string | undefined>> = {
  BUILD_BASE: process.env['AGENTWEAVER_TEST_BUILD_BASE'],
  BASE: process.env['AGENTWEAVER_TEST_BASE'],
}

/** The build arguments, and the reference of each base: the one in the environment or the pinned one. */
function bases() {
  const pinned = instructionsOf('toolbox').filter(({ word }) => word === 'ARG')
  return pinned.map(({ rest }) => {
    const [name = '', reference = ''] = rest.split(/=(.*)/s)
    return { name, reference: BASES[name] || reference }
  })
}

/** Builds a small image from each base, as the Containerfiles do: a step that runs a program needs more than a base. */
function whyNoBuild(): string | undefined {
  const folder = mkdtempSync(join(tmpdir(), 'containerfiles-'))
  try {
    execFileSync('buildah', ['--version'], { stdio: 'ignore' })
    for (const { reference } of bases()) {
      const [file, id] = [join(folder, 'Containerfile'), join(folder, 'id')]
      writeFileSync(file, `FROM ${reference}\nRUN true\n`)
      execFileSync(
        'buildah',
        ['build', '--pull=missing', '--no-cache', '--iidfile', id, '-f', file, folder],
        {
          stdio: ['ignore', 'ignore', 'pipe'],
          timeout: PULL_MS,
        },
      )
      execFileSync('buildah', ['rmi', readFileSync(id, 'utf8')], { stdio: 'ignore' })
    }
    return undefined
  } catch (error) {
    return reasonOf(error)
  } finally {
    rmSync(folder, { recursive: true, force: true })
  }
}

function reasonOf(error: unknown): string {
  if (errnoOf(error) === 'ENOENT') return 'buildah is not installed'
  const stderr = error instanceof Error && 'stderr' in error ? String(error.stderr).trim() : ''
  const last = stderr.split('\n').at(-1) || messageOf(error)
  return `buildah cannot build from a base: ${last}. AGENTWEAVER_TEST_BUILD_BASE and AGENTWEAVER_TEST_BASE name other bases`
}

const reason = whyNoNodes() ?? whyNoBuild()

describe.skipIf(reason !== undefined)(
  `images built with buildah${reason ? ` (skipped: ${reason})` : ''}`,
  () => {
    let folder: string
    let cluster: ClusterSummary

    beforeAll(async () => {
      folder = mkdtempSync(join(tmpdir(), 'containerfiles-'))
      const args = bases().flatMap(({ name, reference }) => ['--build-arg', `${name}=${reference}`])
      for (const name of IMAGE_NAMES) {
        const tag = `localhost/agentweaver-test/${name}`
        const file = join(ROOT, 'images', `${name}.Containerfile`)
        await execFileAsync('buildah', ['build', '--layers', ...args, '-f', file, '-t', tag, ROOT], {
          maxBuffer: 256 * 1024 * 1024,
        })
        await execFileAsync('buildah', ['push', '-q', tag, `oci-archive:${join(folder, `${name}.tar`)}`])
      }
      const { output } = await runCommand(['up', '--service', '--images', folder, '--keep', '--json'])
      expect(output).toContain('{"slot"')
      cluster = JSON.parse(output.slice(output.indexOf('{"slot"'))) as ClusterSummary
    }, BUILD_MS)
    afterAll(async () => {
      if (cluster) await runCommand(['down', '--cluster', String(cluster.slot)])
      rmSync(folder, { recursive: true, force: true })
    })

    it('serve a run, whose commands find the tools of the toolbox', async () => {
      const { url = '', apiKeyFile } = cluster.service ?? {}
      const command = 'gcc --version && python3 --version && node --version && npm --version && rg --version'
      const plan = join(folder, 'plan.json')
      writeFileSync(
        plan,
        JSON.stringify({ turns: [[{ kind: 'tool', tool: 'run_command', arguments: { command } }]] }),
      )

      const login = await runAgentweaver(['login', '--url', url], { home: folder, url, stdin: apiKeyFile })
      const args = ['run', 'look', '--empty-workspace', '--plan', plan, '--yes']
      const run = await runAgentweaver(args, { home: folder, url })

      expect(login).toMatchObject({ code: 0 })
      expect(run.output).toMatch(/gcc \(Debian.*Python 3.*ripgrep/s)
      expect(run.output).toMatch(/gvisor/)
      expect(run).toMatchObject({ code: 0 })
    })
  },
)
