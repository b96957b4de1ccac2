import { dirname, join } from 'node:path'
import { expect, inject, it } from 'vitest'
import { runCli } from '../cli/run-cli.ts'
import { describeWith } from './helpers/features.ts'

const SLOW = 180_000

describeWith(['agent-sandbox', 'gvisor'], 'the demo on a cluster', () => {
  it('uploads a workspace, runs in a dedicated pod, downloads the change, and leaves no objects', {
    timeout: SLOW,
  }, async () => {
    const { kubeconfig, binFolders } = inject('cluster')
    const PATH = [...binFolders, dirname(process.execPath), process.env['PATH']].join(':')

    const { status, stdout } = await runCli(['demo', '--cluster', '--yes'], {
      env: { KUBECONFIG: kubeconfig, PATH },
      withinMs: SLOW - 10_000,
    })

    expect(stdout).toContain('isolation  kubernetes-sandbox-claim')
    expect(stdout.match(/refused {2}(?:a path|the network|the host's environment)/g)).toHaveLength(3)
    expect(stdout).toMatch(/^\+ {2}const band = bands\.find\(\(\{ maxGrams \}\) => grams <= maxGrams\)$/m)
    expect(stdout).toContain(join('result', 'build', 'tariff.txt'))
    expect(status).toBe(0)
  })
})
