import { posix } from 'node:path'
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { AbsolutePath } from '../../contracts/paths.ts'
import { SandboxSettings } from '../../contracts/policy.ts'
import { RunnerEnv } from '../../contracts/runner-env.ts'

const allows = (path: string) => AbsolutePath.safeParse(path).success

describe('an absolute path of a policy', () => {
  it.each(['/', '/srv', '/srv/', '/srv//a', '/srv/./a', '/srv/..a/a..', '/srv/a b/ü/日本', '/srv/...'])(
    'may be %j',
    (path) => {
      expect(allows(path)).toBe(true)
    },
  )

  it.each([
    ...['', 'srv', './srv', '..', '/..', '/srv/..', '/srv/../etc', '/srv/a/../..', 'C:/srv'],
    ...['/srv/x\n/../../etc', '/srv\n', '\n/srv', '/srv/x\r/../a', '/a\u2028/../b', '/a\u2029/../b'],
    ...['/a\0', '/a\tb', '/a\u001bb', '/a\u007f', '/a\u0085b', `/${'a'.repeat(4096)}`],
  ])('may not be %j', (path) => {
    expect(allows(path)).toBe(false)
  })

  it('never leads outside its prefix and never contains a control character', () => {
    const part = fc.oneof(fc.constantFrom('..', '.', '', '\n', '\r', '\u2028', '..\n', '\n..'), fc.string())
    fc.assert(
      fc.property(fc.array(part, { maxLength: 8 }), (parts) => {
        const path = `/top/${parts.join('/')}`
        if (!allows(path)) return true
        return posix.resolve(path).startsWith('/top') && !/\p{Cc}/u.test(path)
      }),
    )
  })

  it('is what settings and the environment of a runner take', () => {
    const hidden = '/srv/x\n/../../etc'
    const runner = (key: string, value: unknown) =>
      RunnerEnv.safeParse({
        AGENTWEAVER_RUNNER_FD: '3',
        AGENTWEAVER_RUNNER_BACKEND: 'linux-bwrap',
        [key]: JSON.stringify(value),
      }).success

    expect(SandboxSettings.safeParse({ allowed_repository_roots: ['/srv/x'] }).success).toBe(true)
    expect(SandboxSettings.safeParse({ allowed_repository_roots: [hidden] }).success).toBe(false)
    expect(runner('AGENTWEAVER_RUNNER_TOOL_ROOTS', ['/srv/x'])).toBe(true)
    expect(runner('AGENTWEAVER_RUNNER_TOOL_ROOTS', [hidden])).toBe(false)
    expect(runner('AGENTWEAVER_RUNNER_HOST_ROOTS', [{ path: '/srv/x', real: '/data/x' }])).toBe(true)
    expect(runner('AGENTWEAVER_RUNNER_HOST_ROOTS', [{ path: hidden, real: '/data/x' }])).toBe(false)
    expect(runner('AGENTWEAVER_RUNNER_HOST_ROOTS', [{ path: '/srv/x', real: hidden }])).toBe(false)
  })
})
