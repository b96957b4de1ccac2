import { existsSync, mkdirSync, mkdtempSync, readdirSync, rmSync, symlinkSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { cacheRoot } from '../../../devcluster/build/tool-cache.ts'
import { whyNoNodes } from '../../../devcluster/host/privileges.ts'
import { runCommand, startCommand, waitForWords } from './command.ts'

const lines = (text: string) => text.split('\n').length
const isRoot = process.getuid?.() === 0
/** Runs a program as another user by every check, but still able to read our files. */
const SOMEBODY = ['unshare', '--user', '--map-user=1000', '--map-group=1000', '--']

describe('a machine with a missing requirement', () => {
  let cache: string

  beforeEach(() => {
    cache = mkdtempSync(join(tmpdir(), 'cluster-faults-'))
  })
  afterEach(() => rmSync(cache, { recursive: true, force: true }))

  it('reports in one line that Go is missing and that everything else works', async () => {
    const env = { PATH: '/usr/bin:/bin', XDG_CACHE_HOME: cache }

    const { code, output } = await runCommand(['up'], { env })

    expect(code).toBe(1)
    expect(output).toMatch(/^Go 1\.26 or newer is needed.*everything but the cluster$/)
  })

  it('reports that the module proxy is unreachable, and leaves no partial folder', async () => {
    const env = { XDG_CACHE_HOME: cache, GOPROXY: 'http://127.0.0.1:1', GOMODCACHE: join(cache, 'modules') }

    const { code, output } = await runCommand(['build'], { env })

    expect(code).toBe(1)
    expect(output).toMatch(/cannot reach its module proxy/)
    expect(readdirSync(cacheRoot({ XDG_CACHE_HOME: cache }))).toEqual(['go-cache'])
  })

  it.skipIf(!isRoot)('reports before a build that the disk is too small', async () => {
    const script = `mount -t tmpfs -o size=64m tmpfs ${cache} && exec "$@"`
    const before = ['unshare', '--mount', '--propagation', 'private', 'sh', '-c', script, 'sh']

    const { code, output } = await runCommand(['build'], { before, env: { XDG_CACHE_HOME: cache } })

    expect(code).toBe(1)
    expect(output).toMatch(/^building needs \d+ GiB of free space below .* XDG_CACHE_HOME at a larger disk$/m)
  })

  it.skipIf(!isRoot)(
    'reports that the disk filled up during a build, and leaves no partial build',
    async () => {
      const compiling = `[ -n "$(ls ${cache}/agentweaver-sandbox/kube/go-cache/00 2>/dev/null)" ]`
      const script = [
        `mount -t tmpfs -o size=8g tmpfs ${cache}`,
        `(until ${compiling}; do sleep 0.05; done; until mount -o remount,size=48m ${cache}; do sleep 0.05; done) &`,
        `"$@"; code=$?; echo "left: [$(ls -A ${cache}/agentweaver-sandbox/kube)]"; exit $code`,
      ].join('\n')
      const before = ['unshare', '--mount', '--propagation', 'private', 'sh', '-c', script, 'sh']

      const { code, output } = await runCommand(['up'], {
        before,
        env: { XDG_CACHE_HOME: cache, GOCACHE: undefined },
      })

      expect(code).toBe(1)
      expect(output).toMatch(/^building kubernetes \(once; about .*\)$/m)
      expect(output).toMatch(/^the disk is full, so this build was not kept\. Free some space, or /m)
      expect(output).toMatch(/^left: \[\]$/m)
    },
  )

  it.skipIf(whyNoNodes() !== undefined)(
    'reports in one line the missing packages and how to install them',
    async () => {
      const hide = ['/usr/sbin/runc', '/bin/busybox']
        .map((path) => `mount --bind /dev/null ${path}`)
        .join(' && ')
      const before = [
        'unshare',
        '--mount',
        '--propagation',
        'private',
        'sh',
        '-c',
        `${hide} && exec "$@"`,
        'sh',
      ]

      const { code, output } = await runCommand(['up', '--node'], { before })

      expect(code).toBe(1)
      expect(output).toBe(
        'missing on this machine: runc, busybox-static. Install with: ' +
          'apt-get update && apt-get install -y --no-install-recommends runc busybox-static',
      )
    },
  )

  it.skipIf(whyNoNodes() !== undefined)(
    'reports in one line that a node needs root, and what works without root',
    async () => {
      const { code, output } = await runCommand(['up', '--node'], { before: SOMEBODY })

      expect(code).toBe(1)
      expect(lines(output)).toBe(1)
      expect(output).toMatch(/^a real node needs root\. What works without: the control plane.*--kwok 1/)
    },
  )

  it.skipIf(whyNoNodes() !== undefined)(
    'may keep its programs below a folder that each node replaces',
    async () => {
      mkdirSync(join(cache, 'agentweaver-sandbox'))
      symlinkSync(cacheRoot(), join(cache, 'agentweaver-sandbox', 'kube'))

      const up = await runCommand(['up', '--node', '--keep'], { env: { XDG_CACHE_HOME: cache } })
      const slot = /cluster (\d+) is ready/.exec(up.output)?.[1] ?? ''
      const down = await runCommand(['down', '--cluster', slot])

      expect(up.output).toMatch(/is ready/)
      expect(down.code).toBe(0)
    },
  )

  it.skipIf(whyNoNodes() !== undefined)(
    'runs a control plane and fake nodes for an unprivileged user',
    async () => {
      const up = startCommand(['up', '--kwok', '1', '--json'], { before: SOMEBODY })
      await waitForWords(up, /"steps"/)

      const { slot } = JSON.parse(up.output().slice(up.output().indexOf('{'))) as { slot: number }
      const nodes = await runCommand(['exec', '--cluster', String(slot), 'kubectl', 'get', 'nodes'], {
        before: SOMEBODY,
      })
      up.child.kill('SIGINT')
      const { code, output } = await up.finished

      expect({ code, output }).toMatchObject({ code: 0 })
      expect(nodes.output).toMatch(/kwok-0 +Ready/)
      expect(existsSync(`/var/tmp/agentweaver-kube-1000/${slot}`)).toBe(false)
      rmSync('/var/tmp/agentweaver-kube-1000', { recursive: true, force: true })
    },
  )
})

describe('a command with invalid arguments', () => {
  it.each([
    [['up', '--nodes', '99'], /--nodes takes a whole number from 0 to 4/],
    [['up', '--cilium', 'slow'], /Allowed choices are instant, default/],
    [['up', '--nodes', 'two'], /a whole number is needed/],
    [['down', '--cluster', '31'], /there is no cluster 31/],
    [['logs', '--cluster', '31'], /there is no cluster 31/],
    [['upp'], /unknown command/],
  ])('%j reports the error', async (args, words) => {
    const { code, output } = await runCommand(args)

    expect(code).toBe(1)
    expect(output).toMatch(words)
  })
})
