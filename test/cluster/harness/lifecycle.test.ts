import { readFileSync } from 'node:fs'
import { beforeAll, describe, expect, it } from 'vitest'
import { whyNoNodes } from '../../../devcluster/host/privileges.ts'
import { listSlots, readState, slotFolder } from '../../../devcluster/host/run-folder.ts'
import { waitUntil } from '../../../devcluster/host/wait-until.ts'
import { runCommand, startCommand, waitForWords, waitUntilClean } from './command.ts'
import { type Machine, newSince, readMachine } from './machine.ts'

const CYCLES = 10
const AT_ONCE = 2
const READY = /is ready after/
const slotIn = (output: string) => Number(/cluster (\d+) is ready/.exec(output)?.[1])

describe.skipIf(whyNoNodes() !== undefined)(`a cluster with a node (${whyNoNodes() ?? 'real'})`, () => {
  let before: Machine

  beforeAll(async () => {
    // The first start on a machine builds missing artefacts, and unpacks only files that later starts unpack too.
    await runCommand(['build'])
    before = readMachine()
  })

  it(`leaves the machine as it was after ${CYCLES} times up and down`, async () => {
    async function cycle(): Promise<void> {
      const up = await runCommand(['up', '--node', '--keep'])
      expect(up.output).toMatch(READY)

      const down = await runCommand(['down', '--cluster', String(slotIn(up.output))])

      expect(down.code).toBe(0)
    }

    for (let done = 0; done < CYCLES; done += AT_ONCE) {
      await Promise.all(Array.from({ length: AT_ONCE }, cycle))
      expect(newSince(before)).toEqual({})
    }
  })

  it.each([
    { words: ['up', '--node'], count: 0 },
    { words: ['up', '--node'], count: 1 },
    { words: ['up', '--node'], count: 3 },
    { words: ['up', '--node'], count: 5 },
    { words: ['up', '--node', '--keep'], count: 3 },
  ])(
    'leaves nothing when $words is killed after it has started $count programs',
    async ({ words, count }) => {
      const slots = new Set(listSlots())
      const up = startCommand(words)
      await waitUntil({ what: `${count} programs`, timeoutMs: 120_000, everyMs: 5 }, () => {
        // The clean-up process runs once the state is written. Before that, only the next start cleans up.
        const slot = listSlots().find((one) => !slots.has(one))
        const state = slot === undefined ? undefined : readState(slotFolder(slot))
        return (state && state.processes.length >= count) || undefined
      })

      process.kill(up.pid, 'SIGKILL')

      await up.finished
      await waitUntilClean(before)
    },
  )

  it('leaves nothing when its starter is killed while pods run on Cilium', async () => {
    const up = startCommand(['up', '--cilium'])
    await waitForWords(up, READY)

    process.kill(up.pid, 'SIGKILL')

    await up.finished
    await waitUntilClean(before)
  })

  it('leaves nothing when the process that holds a kept cluster is killed', async () => {
    const up = await runCommand(['up', '--node', '--keep'])
    const owner = readState(slotFolder(slotIn(up.output)))!.owner

    process.kill(owner.pid, 'SIGKILL')

    await waitUntilClean(before)
  })

  it('shuts down in order when it is interrupted', async () => {
    const up = startCommand(['up', '--node'])
    await waitForWords(up, READY)

    process.kill(up.pid, 'SIGINT')

    expect((await up.finished).code).toBe(0)
    expect(newSince(before)).toEqual({})
  })

  it('is cleaned up by the next start when its clean-up process was killed too', async () => {
    const up = startCommand(['up', '--node'])
    await waitForWords(up, READY)
    const slot = slotIn(up.output())
    const cleanups = readMachine().processes.filter((pid) => isCleanupOf(pid, slot))
    expect(cleanups).toHaveLength(1)

    for (const pid of [...cleanups.map(Number), up.pid]) process.kill(pid, 'SIGKILL')
    await up.finished
    const next = await runCommand(['up', '--node', '--keep'])

    expect(next.output).toMatch(new RegExp(`cleaned up after cluster ${slot}`))
    await runCommand(['down', '--cluster', String(slotIn(next.output))])
    await waitUntilClean(before)
  })

  it('comes up twice at once', async () => {
    const starts = await Promise.all([
      runCommand(['up', '--node', '--keep']),
      runCommand(['up', '--node', '--keep']),
    ])
    const slots = starts.filter(({ code }) => code === 0).map(({ output }) => slotIn(output))

    try {
      expect(slots.length, starts.map(({ output }) => output).join('\n')).toBe(2)
      expect(new Set(slots).size).toBe(2)
      for (const slot of slots) {
        const pods = await runCommand(['exec', '--cluster', String(slot), 'kubectl', 'get', 'pods', '-A'])
        expect(pods.output).toMatch(/coredns.*1\/1/)
      }
    } finally {
      await Promise.all(slots.map((slot) => runCommand(['down', '--cluster', String(slot)])))
    }
    await waitUntilClean(before)
  })

  it.each(['kube-apiserver', 'node0-containerd'])(
    'reports the reason and leaves nothing behind when %s is killed during the start',
    async (name) => {
      const up = startCommand(['up', '--node'])
      const victim = await findStarting(name, up.pid)

      process.kill(victim, 'SIGKILL')

      const { code, output } = await up.finished
      expect(code).toBe(1)
      expect(output).toMatch(new RegExp(`${name} (was ended by SIGKILL|ended with code 137)`))
      expect(newSince(before)).toEqual({})
    },
  )
})

function isCleanupOf(pid: string, slot: number): boolean {
  const words = readFileSync(`/proc/${pid}/cmdline`, 'utf8').split('\0')
  return words.includes('crash-cleanup') && words.includes(slotFolder(slot))
}

/** Finds a program of the cluster that this process starts. The test must not kill programs of other clusters. */
function findStarting(name: string, owner: number): Promise<number> {
  return waitUntil({ what: `${name} to start`, timeoutMs: 120_000, everyMs: 2 }, () => {
    const state = listSlots()
      .map((slot) => readState(slotFolder(slot)))
      .find((found) => found?.owner.pid === owner)
    return state?.processes.find((process) => process.name === name)?.pid
  })
}
