import { mkdirSync, readFileSync, symlinkSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, it } from 'vitest'
import { ExecRequest, type WorkspaceUsage } from '../../contracts/exec.ts'
import { RUNNER_FRAME } from '../../contracts/runner.ts'
import { spawnRunner } from '../../runtime/agent-host/toolbox/spawn-runner.ts'
import { silentLog } from '../../runtime/kit/log.ts'
import { until } from '../helpers/until.ts'
import { aRoot, aRunner, commandLineOf } from './runner-fixture.ts'

describe('a runner', () => {
  it('sends its isolation and its path engine in hello', async () => {
    const { link } = await aRunner()

    expect(link.role).toBe('per-command')
    expect(link.isolation).toMatchObject({ backend: 'direct', isRealIsolation: false })
    expect(['openat2', 'walk']).toContain(link.pathEngine)
  })

  it('opens no folder that is reached through a link', async () => {
    const link = await spawnRunner({ backend: 'direct', toolRoots: [], log: silentLog })
    try {
      const root = aRoot()
      mkdirSync(join(root, 'real', 'inner'), { recursive: true })
      symlinkSync('real', join(root, 'alias'))

      await expect(link.open(join(root, 'alias', 'inner'))).rejects.toThrow(/is reached through a link/)
      await link.open(join(root, 'real', 'inner'))
    } finally {
      await link.close()
    }
  })

  it('serves nothing before a workspace is open, and opens only one', async () => {
    const link = await spawnRunner({ backend: 'direct', toolRoots: [], log: silentLog })
    const root = aRoot()
    try {
      const exec = await link.exec(ExecRequest.parse({ command: `touch ${root}/done` }), {
        onChunk: () => undefined,
      })
      const file = await link.file({ op: 'list', path: '.' })
      const tar = link.tarOut().next()

      expect(exec).toMatchObject({ reason: 'spawn_failed', exitCode: null })
      expect(file.result).toMatchObject({ ok: false, code: 'denied' })
      await expect(tar).rejects.toMatchObject({ code: 'workspace_invalid' })
      await expect(link.open(`${root}/none`)).rejects.toMatchObject({ code: 'workspace_invalid' })
      await link.open(root)
      await expect(link.open(root)).rejects.toThrow(/open already/)
      expect((await link.file({ op: 'list', path: '.' })).result).toEqual({ ok: true, entries: [] })
    } finally {
      await link.close()
    }
  })

  it('returns exit code, signal and both streams', async () => {
    const { run } = await aRunner()

    const exited = await run('echo out; echo err >&2; exit 3')
    const killed = await run('kill -TERM $$')

    expect(exited).toMatchObject({
      stdout: 'out\n',
      stderr: 'err\n',
      result: { exitCode: 3, reason: 'exit' },
    })
    expect(killed.result).toMatchObject({ exitCode: null, signal: 'SIGTERM', reason: 'signal' })
  })

  it('streams output while the command runs', async () => {
    const { run, root } = await aRunner()

    const finished = await run('echo first; while [ ! -e go ]; do sleep 0.01; done; echo second', {
      onChunk: (_stream, bytes) => {
        if (Buffer.from(bytes).toString() === 'first\n') writeFileSync(join(root, 'go'), '')
      },
    })

    expect(finished.result).toMatchObject({ exitCode: 0, stdoutBytes: 13 })
  })

  it('reports that commands fill the workspace, and that it has room again', async () => {
    const { run, link } = await aRunner()
    const reports: WorkspaceUsage[] = []
    link.onUsage((usage) => reports.push(usage))
    const limits = { maxWorkspaceBytes: 67_108_864 }

    const full = await run('while :; do head -c 4194304 /dev/zero >> much; sleep 0.1; done', limits)
    const reported = reports.map(({ level }) => level)
    const emptied = await run('rm much', limits)

    expect(full.result.reason).toBe('workspace_full')
    expect(reported.at(-1)).toBe(95)
    expect(reports[0]).toMatchObject({ maxBytes: 67_108_864, maxFiles: 1_000_000 })
    expect(emptied.result.exitCode).toBe(0)
    await until('the runner reports that there is room', () => reports.at(-1)?.level === 0)
  })

  it('slows a command down if its output is not read', async () => {
    const { run, root } = await aRunner()
    const released = Promise.withResolvers<void>()
    let received = 0
    writeFileSync(join(root, 'count'), '0')
    const written = () => Number(readFileSync(join(root, 'count'), 'utf8') || '0')
    const command = `i=0; while [ $i -lt 200 ]; do head -c 65536 /dev/zero; i=$((i+1)); echo $i > count; done`

    const running = run(command, {
      maxOutputBytes: 100_000_000,
      onChunk: async (_stream, bytes) => {
        received += bytes.length
        await released.promise
      },
    })
    await until('the command has filled the window', () => {
      return written() * 65_536 >= RUNNER_FRAME.windowBytes / 2
    })
    const before = await settled(written)
    released.resolve()
    const { result } = await running

    expect(before).toBeLessThan(100)
    expect(result).toMatchObject({ exitCode: 0, stdoutBytes: 200 * 65_536 })
    expect(received).toBe(200 * 65_536)
  })

  it('transfers large input and large output unchanged', async () => {
    const { run } = await aRunner()
    const stdin = Buffer.alloc(8_000_001, 'input and ')

    const { result, stdout } = await run('cat', { stdin, maxOutputBytes: 20_000_000 })

    expect(result).toMatchObject({ exitCode: 0, stdoutBytes: stdin.length, outputTruncated: false })
    expect(Buffer.from(stdout).equals(stdin)).toBe(true)
  })

  it('kills a command and its children when it is cancelled', async () => {
    const { run, root } = await aRunner()
    const abort = new AbortController()

    const running = run('sleep 300 & echo $! > child; echo ready; wait', {
      signal: abort.signal,
      onChunk: () => abort.abort(),
    })
    const { result } = await running

    expect(result.reason).toBe('cancelled')
    const child = Number(readFileSync(join(root, 'child'), 'utf8'))
    await until('the child is gone', () => commandLineOf(child) === '')
  })

  it('does not start a command that is already cancelled', async () => {
    const { run, root, link } = await aRunner()

    const { result } = await run('touch started', { signal: AbortSignal.abort() })

    expect(result.reason).toBe('cancelled')
    expect((await link.file({ op: 'stat', path: 'started' })).result.ok, root).toBe(false)
  })

  it('keeps output from before a timeout', async () => {
    const { run } = await aRunner()
    let printed = ''

    // A busy machine may not have started the command within the first timeouts.
    for (const timeoutMs of [300, 3_000, 30_000]) {
      const { result, stdout } = await run('echo partial; sleep 300', { timeoutMs })
      printed = String(stdout)
      expect(result).toMatchObject({ timedOut: true, reason: 'timeout' })
      if (printed !== '') break
    }

    expect(printed).toBe('partial\n')
  })

  it('runs fifty commands at once without mixing them up', async () => {
    const { run } = await aRunner()

    const all = await Promise.all(
      Array.from({ length: 50 }, (_, index) => run(`echo ${index}; echo ${index} >&2; exit ${index}`)),
    )

    expect(all.map(({ stdout }) => stdout.trim())).toEqual(
      Array.from({ length: 50 }, (_, index) => `${index}`),
    )
    expect(all.map(({ result }) => result.exitCode)).toEqual(Array.from({ length: 50 }, (_, index) => index))
  })

  it.each(['..', '/', '../root', 'none', 'file', 'link'])(
    'does not start in the folder %s',
    async (directory) => {
      const { run, link } = await aRunner()
      await run('ln -s / link; touch file')

      const { result } = await run('pwd', { directory })

      expect(result).toMatchObject({ reason: 'spawn_failed', exitCode: null })
      expect(result.message).toMatch(/working directory/)
      expect((await link.file({ op: 'stat', path: 'file' })).result.ok).toBe(true)
    },
  )

  it('rejects a malformed request without losing the connection', async () => {
    const { link, run } = await aRunner()
    const request = { ...ExecRequest.parse({ command: 'true' }), command: 'x'.repeat(70_000) }

    const exec = await link.exec(request, { onChunk: () => undefined })
    const file = await link.file({ op: 'read', path: 'x'.repeat(5000) })

    expect(exec.reason).toBe('spawn_failed')
    expect(file.result).toMatchObject({ ok: false, code: 'path_too_long' })
    expect((await run('echo alive')).stdout).toBe('alive\n')
  })

  it("rejects with the error of the caller's own consumer, after the command is gone", async () => {
    const { run } = await aRunner()
    const failing = () => {
      throw new Error('the consumer is full')
    }

    await expect(run('yes', { onChunk: failing, maxOutputBytes: 100_000_000 })).rejects.toThrow(
      'the consumer is full',
    )

    expect((await run('echo alive')).stdout).toBe('alive\n')
  })
})

describe('files through a runner', () => {
  it('are written and read completely up to the limit', async () => {
    const { link } = await aRunner()
    const payload = Buffer.alloc(16_777_216, 'large ')

    const written = await link.file({ op: 'write', path: 'large' }, { payload })
    const read = await link.file({ op: 'read', path: 'large' })

    expect(written.result.ok).toBe(true)
    expect(Buffer.from(read.payload).equals(payload)).toBe(true)
    const over = await link.file({ op: 'write', path: 'larger' }, { payload: Buffer.alloc(16_777_217) })
    expect(over.result).toMatchObject({ ok: false, code: 'too_large' })
  })

  it('are contained', async () => {
    const { link, run } = await aRunner()
    await run('ln -s .. up; ln -s ../secret.txt secret')

    for (const path of ['../secret.txt', 'up/secret.txt', 'secret', '/etc/passwd']) {
      const { result, payload } = await link.file({ op: 'read', path })
      expect(result.ok).toBe(false)
      expect(payload).toHaveLength(0)
    }
    expect((await run('cat up/secret.txt')).stdout, 'the links do lead there').toBe('what lies outside')
  })
})

/** Waits until a value is stable: five equal readings in a row. */
async function settled(read: () => number): Promise<number> {
  let last = read()
  let equal = 0
  await until('the command stands still', () => {
    const value = read()
    equal = value === last ? equal + 1 : 0
    last = value
    return equal >= 20
  })
  return last
}
