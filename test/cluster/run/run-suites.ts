import { spawn } from 'node:child_process'
import { join } from 'node:path'
import { COMPILE_CACHE } from '../../helpers/compile-cache.ts'

/**
 * Runs the cluster suites on a new cluster or, with `--use-current`, on the cluster of KUBECONFIG. Without that flag
 * KUBECONFIG is ignored, so that the tests never run on an existing cluster by accident.
 */
const USE_CURRENT = '--use-current'
const root = join(import.meta.dirname, '..', '..', '..')
const args = process.argv.slice(2)
const useCurrent = args.includes(USE_CURRENT)
const env = { ...process.env, ...COMPILE_CACHE, AGENTWEAVER_USE_CURRENT: useCurrent ? '1' : '' }
// The suites of the harness start clusters themselves, which `--use-current` excludes.
const projects = useCurrent ? ['--project', 'cluster', '--project', 'packets'] : []
const vitest = [
  join(root, 'node_modules/vitest/vitest.mjs'),
  'run',
  '--config',
  'vitest.cluster.config.ts',
  ...projects,
]
const child = spawn(process.execPath, [...vitest, ...args.filter((arg) => arg !== USE_CURRENT)], {
  cwd: root,
  env,
  stdio: 'inherit',
})
for (const signal of ['SIGINT', 'SIGTERM'] as const) process.on(signal, () => child.kill(signal))
child.on('exit', (code, signal) => {
  process.exitCode = signal ? 1 : (code ?? 1)
})
