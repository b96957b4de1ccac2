import { spawnSync } from 'node:child_process'
import { HarnessError } from '../harness-error.ts'

/** The oldest compiler version that the modules below `tools/` require. */
const MINIMUM = { major: 1, minor: 26 }

/** The output of the compiler's version command. Part of every cache key. */
export function readGoVersion(): string {
  const result = spawnSync('go', ['version'], {
    encoding: 'utf8',
    env: { ...process.env, GOTOOLCHAIN: 'local' },
    timeout: 10_000,
  })
  const need = `Go ${MINIMUM.major}.${MINIMUM.minor} or newer is needed to build the cluster's programs`
  if (result.status !== 0)
    throw new HarnessError(`${need}, and there is no \`go\` in PATH. Without it: everything but the cluster`)
  const match = /go(\d+)\.(\d+)/.exec(result.stdout)
  const [major, minor] = [Number(match?.[1]), Number(match?.[2])]
  if (!(major > MINIMUM.major || (major === MINIMUM.major && minor >= MINIMUM.minor))) {
    throw new HarnessError(`${need}; this machine has ${result.stdout.trim()}`)
  }
  return result.stdout.trim()
}
