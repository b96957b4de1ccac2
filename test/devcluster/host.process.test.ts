import { spawn } from 'node:child_process'
import { existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { createServer } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { describe, expect, it } from 'vitest'
import { completeOptions } from '../../devcluster/cluster-options.ts'
import { deferred } from '../../devcluster/deferred.ts'
import { MAX_SLOTS } from '../../devcluster/host/addresses.ts'
import { createCgroups } from '../../devcluster/host/cgroups.ts'
import { startDaemon } from '../../devcluster/host/daemon.ts'
import { chooseFreePorts, withFreePorts } from '../../devcluster/host/free-ports.ts'
import { installCommand, missingPackages } from '../../devcluster/host/packages.ts'
import { whyNoNodes } from '../../devcluster/host/privileges.ts'
import { identityOf, isAlive } from '../../devcluster/host/process-identity.ts'
import { slotFolder, writeState } from '../../devcluster/host/run-folder.ts'
import { sweepCluster } from '../../devcluster/host/sweep.ts'
import { createTogether } from '../../devcluster/host/together.ts'
import { waitUntil } from '../../devcluster/host/wait-until.ts'
import { until } from '../helpers/until.ts'

function inTemporaryFolder<T>(work: (folder: string) => Promise<T>): Promise<T> {
  const folder = mkdtempSync(join(tmpdir(), 'host-'))
  return work(folder).finally(() => rmSync(folder, { recursive: true, force: true }))
}

describe('withFreePorts', () => {
  it('retries with other ports when a port was taken in the meantime', async () => {
    const [taken = 0] = await chooseFreePorts(1)
    const squatter = createServer().listen(taken, '127.0.0.1')
    const choices = [[taken], await chooseFreePorts(1)]
    const listen = async ([port]: number[]) => {
      const server = createServer()
      await new Promise<void>((resolve, reject) =>
        server.once('error', reject).listen(port, '127.0.0.1', resolve),
      )
      server.close()
      return port
    }

    const used = await withFreePorts(1, listen, async () => choices.shift() ?? [])

    expect(used).not.toBe(taken)
    squatter.close()
  })

  it('does not retry after another error', async () => {
    let tries = 0

    const start = withFreePorts(1, async () => {
      tries += 1
      throw new Error('no such file')
    })

    await expect(start).rejects.toThrow('no such file')
    expect(tries).toBe(1)
  })
})

describe('waitUntil', () => {
  it('throws with the reason and the log when a needed program ends', () =>
    inTemporaryFolder(async (folder) => {
      const argv = ['sh', '-c', 'echo the cause; exit 3']
      const daemon = startDaemon({ name: 'short', argv, logPath: join(folder, 'short.log') })

      const wait = waitUntil({ what: 'it to be ready', timeoutMs: 5_000, needs: [daemon] }, () => undefined)

      await expect(wait).rejects.toThrow(/short ended with code 3.*\n.*the cause/)
    }))

  it('throws with the last error at its deadline', async () => {
    const wait = waitUntil({ what: 'nothing', timeoutMs: 60 }, () => {
      throw new Error('not yet')
    })

    await expect(wait).rejects.toThrow('gave up waiting for nothing after 0.06 s (not yet)')
  })
})

describe('an error during a start', () => {
  it('is the first error, even when a consequence arrives earlier', async () => {
    const closed = deferred()
    const together = createTogether(async () => closed.resolve())
    const consequence = closed.promise.then(() => Promise.reject(new Error('was ended by SIGKILL')))
    const lateSibling = consequence.catch(() => undefined)

    const inner = together([Promise.reject(new Error('the disk is full')), lateSibling])
    const outer = together([inner, consequence])

    await expect(outer).rejects.toThrow('the disk is full')
    await expect(inner).rejects.toThrow('the disk is full')
  })

  it('contains the remedy when a program found no inotify instance', () =>
    inTemporaryFolder(async (folder) => {
      const explain = async (name: string, words: string) => {
        const argv = ['sh', '-c', `echo '${words}'; exit 1`]
        const daemon = startDaemon({ name, argv, logPath: join(folder, `${name}.log`) })
        return waitUntil({ what: 'it', timeoutMs: 5_000, needs: [daemon] }, () => undefined).catch(String)
      }

      expect(await explain('full', 'Failed to start cAdvisor: inotify_init: too many open files')).toMatch(
        /full ended with code 1; .*sysctl fs\.inotify\.max_user_instances=.*cAdvisor/s,
      )
      expect(await explain('other', 'accept: too many open files')).not.toMatch(/inotify/)
    }))
})

describe('startDaemon', () => {
  it('kills a program that ignores SIGTERM', () =>
    inTemporaryFolder(async (folder) => {
      const argv = ['sh', '-c', 'trap "" TERM; echo ready; while :; do sleep 0.05; done']
      const logPath = join(folder, 'log')
      const daemon = startDaemon({ name: 'stubborn', argv, logPath })
      await until('the program ignores SIGTERM', () => readFileSync(logPath, 'utf8').includes('ready'))

      await daemon.stop(100)

      expect(daemon.exitReason()).toBe('was ended by SIGKILL')
      expect(isAlive(daemon.identity)).toBe(false)
    }))

  it('distinguishes a process from an earlier one with the same ID', () => {
    const own = identityOf(process.pid)!

    expect(isAlive(own)).toBe(true)
    expect(isAlive({ ...own, startTicks: '1' })).toBe(false)
  })
})

describe('missing requirements', () => {
  it('are listed as Debian packages with the command that installs them', () => {
    const nothing = () => false

    expect(missingPackages(completeOptions({}), nothing)).toEqual(['util-linux'])
    expect(missingPackages(completeOptions({ cilium: 'instant' }), nothing)).toContain('clang-19')
    expect(missingPackages(completeOptions({ nodes: 1 }), nothing)).not.toContain('clang-19')
    expect(missingPackages(completeOptions({ nodes: 1 }), () => true)).toEqual([])
    expect(installCommand(['runc', 'git'])).toBe(
      'apt-get update && apt-get install -y --no-install-recommends runc git',
    )
  })

  it('are reported with the features that work without them', () => {
    const reason = whyNoNodes([{ what: 'a real node needs wings', holds: () => false }])

    expect(reason).toMatch(/^a real node needs wings\. What works without: the control plane/)
    expect(whyNoNodes([{ what: 'air', holds: () => true }])).toBeUndefined()
  })
})

describe('options', () => {
  it.each([
    [{ gvisor: true }, 1],
    [{ cilium: 'default' as const }, 1],
    [{ kwokNodes: 3 }, 0],
    [{ nodes: 2, gvisor: true }, 2],
  ])('%j make %i nodes', (given, nodes) => {
    expect(completeOptions(given).nodes).toBe(nodes)
  })
})

describe.skipIf(whyNoNodes() !== undefined)(`sweepCluster (${whyNoNodes() ?? 'real'})`, () => {
  // A number that no cluster takes.
  const slot = MAX_SLOTS + process.pid
  const owner = { pid: process.pid, startTicks: 'of a dead owner' }

  /** A process in the group of a node that no state file names, as after a fork while its parent was killed. */
  function startUnrecorded() {
    const child = spawn('sleep', ['600'], { stdio: 'ignore' })
    const ended = new Promise((resolve) => child.once('exit', (_, signal) => resolve(signal)))
    const cgroups = createCgroups(`awtest${slot}`)
    for (const folder of cgroups) {
      const inner = join(folder, 'pod')
      mkdirSync(inner)
      if (existsSync(join(inner, 'cpuset.cpus'))) {
        for (const file of ['cpuset.cpus', 'cpuset.mems'])
          writeFileSync(join(inner, file), readFileSync(join(folder, file), 'utf8'))
      }
      writeFileSync(join(inner, 'cgroup.procs'), String(child.pid))
    }
    mkdirSync(slotFolder(slot), { recursive: true })
    const rest = { options: {}, ready: false, processes: [], nodes: [], pathFolders: [] }
    writeState(slotFolder(slot), { slot, owner, startedAt: 'now', cgroups, ...rest })
    return { child, ended, cgroups }
  }

  it('ends a process of a node that no state file names', async ({ onTestFinished }) => {
    const { child, ended, cgroups } = startUnrecorded()
    onTestFinished(() => void child.kill('SIGKILL'))

    await sweepCluster(slot)

    expect(await ended).toBe('SIGKILL')
    expect([...cgroups, slotFolder(slot)].filter((folder) => existsSync(folder))).toEqual([])
  })
})
