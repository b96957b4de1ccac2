import { createHmac, randomBytes } from 'node:crypto'
import fc from 'fast-check'
import { expect, it } from 'vitest'
import { UserSecretName } from '../../contracts/secrets.ts'
import { resolveAgent } from '../../runtime/agents/registry.ts'
import { readConfig } from '../../runtime/api/config.ts'
import { userSecretName } from '../../runtime/api/keys/user-secret-name.ts'

const KEY = new Uint8Array(32).fill(7)
const COPILOT = { kind: 'copilot', model: 'gpt' } as const
const CLUSTER = {
  AGENTWEAVER_SANDBOXES: 'kubernetes',
  AGENTWEAVER_DEPLOYMENT_ID: 'test',
  AGENTWEAVER_RUNTIME_CLASS: 'none',
}
const read = (env: Record<string, string>) => readConfig(env, { home: '/home/ada', cwd: '/srv' })

/** Reference implementation of base32: five bits at a time, from a text of all bits. */
function plainly(bytes: Uint8Array): string {
  const bits = [...bytes].map((byte) => byte.toString(2).padStart(8, '0')).join('')
  const groups = bits.match(/.{1,5}/g) ?? []
  return groups
    .map((group) => 'abcdefghijklmnopqrstuvwxyz234567'[Number.parseInt(group.padEnd(5, '0'), 2)])
    .join('')
}

it('names a secret in the permitted format for any owner', () => {
  fc.assert(
    fc.property(fc.string({ unit: 'binary' }), (owner) => {
      const name = userSecretName(KEY, owner)
      const digest = createHmac('sha256', KEY).update(owner, 'utf8').digest()

      expect(UserSecretName.safeParse(name).success).toBe(true)
      expect(name).toBe(`ghtok-user--${plainly(digest)}`)
    }),
    { numRuns: 50 },
  )
})

it('gives each owner a different name, and another deployment different names', () => {
  const names = ['ada', 'bob', 'Ada', 'ada ', 'ada\0'].map((owner) => userSecretName(KEY, owner))

  expect(new Set(names).size).toBe(names.length)
  expect(userSecretName(randomBytes(32), 'ada')).not.toBe(names[0])
})

it("configures an agent of kind copilot with its owner's secret and without a token", () => {
  const secretNameOf = (owner: string) => userSecretName(KEY, owner)

  const { credential } = resolveAgent(COPILOT, { secretNameOf }, 'ada')

  expect(credential).toEqual({ kind: 'keyVault', secretName: userSecretName(KEY, 'ada') })
})

it('works only on a cluster, and not together with a token for all owners', () => {
  expect(read({ ...CLUSTER, AGENTWEAVER_USER_VAULT: 'true' }).hasUserVault).toBe(true)
  expect(read(CLUSTER).hasUserVault).toBe(false)
  expect(() => read({ AGENTWEAVER_USER_VAULT: 'true' })).toThrow('AGENTWEAVER_USER_VAULT')
  expect(() => read({ ...CLUSTER, AGENTWEAVER_USER_VAULT: 'true', COPILOT_GITHUB_TOKEN: 'x' })).toThrow(
    'COPILOT_GITHUB_TOKEN',
  )
})
