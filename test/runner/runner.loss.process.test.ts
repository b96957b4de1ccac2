import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { existsSync, readFileSync, readlinkSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { describe, expect, it, onTestFinished } from 'vitest'
import { spawnRunner } from '../../runtime/agent-host/toolbox/spawn-runner.ts'
import { silentLog } from '../../runtime/kit/log.ts'
import { until } from '../helpers/until.ts'
import { aRoot, aRunner, commandLineOf } from './runner-fixture.ts'

const HOST = fileURLToPath(new URL('../fixtures/runner-host.ts', import.meta.url))

/** A command that survives a killed runner: without isolation nothing ends it, so the test does. */
function aSurvivor(root: string): string {
  onTestFinished(() => void process.kill(Number(readFileSync(join(root, 'survivor'), 'utf8')), 'SIGKILL'))
  return 'echo $$ > survivor; echo started; exec sleep 300'
}

describe('a lost runner', () => {
  it('fails every pending call', async () => {
    const { link, run, root, pid } = await aRunner()
    await run('head -c 20000000 /dev/zero > large')
    const started = Promise.withResolvers<void>()
    const pending = [
      run(aSurvivor(root), { onChunk: () => started.resolve() }),
      link.tarIn(never()),
      drain(link.tarOut(), started.promise),
    ] as const
    const outcomes = Promise.allSettled(pending)

    await started.promise
    process.kill(pid, 'SIGKILL')
    const [exec, tarIn, tarOut] = await outcomes

    expect(exec).toMatchObject({ value: { result: { reason: 'lost', exitCode: null, signal: null } } })
    expect(tarIn).toMatchObject({ reason: { code: 'sandbox_lost' } })
    expect(tarOut).toMatchObject({ reason: { code: 'sandbox_lost' } })
    expect(await link.closed).toMatch(/runner/)
  })

  it('leaves no temporary files behind', async () => {
    const { link, run, root, pid } = await aRunner()
    const folder = environmentOf(pid).get('AGENTWEAVER_RUNNER_TEMP') ?? ''
    const started = Promise.withResolvers<void>()
    const running = run(aSurvivor(root), { onChunk: () => started.resolve() })
    await started.promise
    expect(existsSync(folder), 'the control: it has such a folder').toBe(true)

    process.kill(pid, 'SIGKILL')
    await running
    await link.close()

    expect(existsSync(folder)).toBe(false)
  })

  it('fails later calls immediately', async () => {
    const { link, run, pid } = await aRunner()

    process.kill(pid, 'SIGKILL')
    await link.closed

    expect((await run('true')).result.reason).toBe('lost')
    expect((await link.file({ op: 'stat', path: '.' })).result).toMatchObject({ ok: false, code: 'io_error' })
    await expect(link.open('/tmp')).rejects.toMatchObject({ code: 'sandbox_lost' })
    await expect(link.tarOut().next()).rejects.toMatchObject({ code: 'sandbox_lost' })
  })

  it('kills its commands when AgentHost closes the connection', async () => {
    const { link, run, root, pid } = await aRunner()
    const started = Promise.withResolvers<void>()
    const running = run('sleep 300 & echo $! > child; echo ready; wait', { onChunk: () => started.resolve() })
    await started.promise

    await link.close()

    expect((await running).result.reason).toBe('lost')
    const child = Number(readFileSync(join(root, 'child'), 'utf8'))
    await until('the runner and the command are gone', () => commandLineOf(pid) + commandLineOf(child) === '')
  })

  it('exits when AgentHost is killed', async () => {
    const root = aRoot()
    const host = spawn(process.execPath, [HOST, root], { stdio: ['ignore', 'pipe', 'inherit'] })
    onTestFinished(() => void host.kill('SIGKILL'))
    await once(host.stdout, 'data')
    const runner = Number(readFileSync(`/proc/${host.pid}/task/${host.pid}/children`, 'utf8'))
    const child = () => Number(readFileSync(join(root, 'child'), 'utf8'))
    await until('the command has written its number', () => child() > 0)
    const pids = [runner, child()]
    const folder = environmentOf(runner).get('AGENTWEAVER_RUNNER_TEMP') ?? ''
    expect(pids.map(commandLineOf), 'the control: both run').not.toContain('')
    expect(existsSync(folder)).toBe(true)

    host.kill('SIGKILL')

    await until('the runner and its command are gone', () => pids.map(commandLineOf).join('') === '')
    expect(existsSync(folder)).toBe(false)
  })
})

describe('starting a runner', () => {
  it('reports why it did not start', async () => {
    const starting = spawnRunner({ backend: 'kubernetes-sandbox-claim', toolRoots: [], log: silentLog })

    await expect(starting).rejects.toMatchObject({
      code: 'isolation_unavailable',
      message: expect.stringContaining('kubernetes-sandbox-claim'),
    })
  })

  it('passes it only its own environment, and its commands no connection', async () => {
    const { run, pid } = await aRunner()

    const names = [...environmentOf(pid).keys()]
    const { stdout } = await run('readlink /proc/$$/fd/*')

    const connection = readlinkSync(`/proc/${pid}/fd/3`)
    expect(connection, 'the control: the runner has it').toMatch(/^socket:/)
    expect(stdout.split('\n').length).toBeGreaterThan(3)
    expect(stdout).not.toContain(connection)
    expect(names.sort()).toEqual([
      'AGENTWEAVER_RUNNER_BACKEND',
      'AGENTWEAVER_RUNNER_FD',
      'AGENTWEAVER_RUNNER_HOST_ROOTS',
      'AGENTWEAVER_RUNNER_TEMP',
      'AGENTWEAVER_RUNNER_TOOL_ROOTS',
      'PATH',
    ])
  })
})

/** The environment with which a process was started. */
function environmentOf(pid: number): Map<string, string> {
  const entries = readFileSync(`/proc/${pid}/environ`, 'utf8').split('\0').filter(Boolean)
  return new Map(entries.map((entry) => [entry.split('=')[0] ?? '', entry.slice(entry.indexOf('=') + 1)]))
}

async function* never(): AsyncGenerator<Uint8Array> {
  await new Promise(() => undefined)
}

async function drain(source: AsyncIterable<Uint8Array>, start: Promise<void>): Promise<void> {
  for await (const _ of source) await start
}
