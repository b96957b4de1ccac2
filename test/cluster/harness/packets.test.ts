import { spawn } from 'node:child_process'
import { mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { ensureTools } from '../../../devcluster/build/ensure-tools.ts'
import { deferred } from '../../../devcluster/deferred.ts'
import { whyNoNodes } from '../../../devcluster/host/privileges.ts'
import { waitUntil } from '../../../devcluster/host/wait-until.ts'
import { runCommand, waitUntilClean } from './command.ts'
import { type Machine, readMachine } from './machine.ts'

const RUN_SUITES = join(import.meta.dirname, '..', 'run', 'run-suites.ts')
/** Words that only the program of the probes has on its command line. */
const PROBE_WORDS = 'const AT_ONCE ='
const CLEAN_MS = 30_000

interface Report {
  readonly numPassedTests: number
  readonly numFailedTests: number
  readonly numPendingTests: number
  readonly testResults: readonly { readonly assertionResults: readonly { readonly fullName: string }[] }[]
}

function startSuites(args: readonly string[], env: NodeJS.ProcessEnv = {}) {
  const child = spawn(process.execPath, [RUN_SUITES, ...args], {
    env: { ...process.env, ...env },
    stdio: ['ignore', 'pipe', 'pipe'],
  })
  const { promise: finished, resolve } = deferred<number | null>()
  let output = ''
  for (const stream of [child.stdout, child.stderr]) {
    stream.setEncoding('utf8').on('data', (text: string) => {
      output += text
    })
  }
  child.on('close', resolve)
  return { child, finished, output: () => output }
}

/** Processes that listen or probe, wherever they are. */
function probes(): string[] {
  return readdirSync('/proc').filter((name) => {
    if (!/^\d+$/.test(name)) return false
    try {
      return readFileSync(`/proc/${name}/cmdline`, 'utf8').includes(PROBE_WORDS)
    } catch {
      return false
    }
  })
}

describe('the packet suites', () => {
  let folder: string
  let before: Machine

  beforeEach(() => {
    folder = mkdtempSync(join(tmpdir(), 'packets-'))
    before = readMachine()
  })
  afterEach(() => rmSync(folder, { recursive: true, force: true }))

  it('are skipped by name, and none passes, on a cluster with the CRDs of Cilium and without its agent', async () => {
    const tools = await ensureTools(['cilium'], () => undefined)
    const up = await runCommand(['up', '--keep'])
    const slot = /cluster (\d+) is ready/.exec(up.output)?.[1] ?? ''
    const file = join(folder, 'report.json')
    try {
      const crds = tools.share('cilium', 'cilium/crds/v2')
      const applied = await runCommand([
        'exec',
        '--cluster',
        slot,
        'kubectl',
        'apply',
        '--server-side',
        '-f',
        crds,
      ])
      expect(applied.output).toContain('ciliumnetworkpolicies.cilium.io serverside-applied')
      const { output: kubeconfig } = await runCommand(['kubeconfig', '--cluster', slot])

      const suites = startSuites(
        ['--use-current', 'test/cluster/packets.', '--reporter=json', `--outputFile.json=${file}`],
        { KUBECONFIG: kubeconfig },
      )

      expect(await suites.finished, suites.output()).toBe(0)
    } finally {
      await runCommand(['down', '--cluster', slot])
    }
    const report = JSON.parse(readFileSync(file, 'utf8')) as Report
    const names = report.testResults.flatMap(({ assertionResults }) =>
      assertionResults.map(({ fullName }) => fullName),
    )
    expect(report).toMatchObject({ numPassedTests: 0, numFailedTests: 0 })
    expect(report.numPendingTests).toBeGreaterThan(60)
    expect(names.filter((name) => !name.includes('(skipped: no cilium'))).toEqual([])
  })

  it.skipIf(whyNoNodes() !== undefined)('leave no address, link or process behind', async () => {
    const suites = startSuites(['packets.kit'])

    expect(await suites.finished, suites.output()).toBe(0)

    await waitUntilClean(before)
    expect(probes()).toEqual([])
  })

  it.skipIf(whyNoNodes() !== undefined)('leave nothing behind when they are killed', async () => {
    const suites = startSuites(['packets.kit'])
    // The node's listener, the outside's and the probers of both: the pods' are among them, too.
    await waitUntil({ what: 'the probes', timeoutMs: 120_000 }, () => probes().length > 4)

    const script = suites.child.pid ?? 0
    for (const pid of [...childrenOf(script), script]) process.kill(pid, 'SIGKILL')

    await suites.finished
    await waitUntil({ what: 'the probes to be gone', timeoutMs: CLEAN_MS }, () => probes().length === 0)
    await waitUntilClean(before, CLEAN_MS)
  })
})

/** The runner that the script has started: it would go on without it. */
function childrenOf(parent: number): number[] {
  const children = readFileSync(`/proc/${parent}/task/${parent}/children`, 'utf8').trim()
  return children === '' ? [] : children.split(' ').map(Number)
}
