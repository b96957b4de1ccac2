import { expect, test } from 'vitest'
import { readConfig } from '../../../runtime/api/config.ts'

const read = (env: Record<string, string>) => readConfig(env, { home: '/home/ada', cwd: '/home/ada' }).signIn
const COMPLETE = {
  AGENTWEAVER_OIDC_ISSUER: 'https://login.example.com/tenant/v2.0',
  AGENTWEAVER_OIDC_AUDIENCE: 'api://agentweaver',
  AGENTWEAVER_OIDC_ROLES: 'dev team=user, a=b=operator',
}

test('without an issuer there is no sign-in', () => {
  expect(read({})).toBeUndefined()
})

test('an issuer, an audience and roles are enough', () => {
  expect(read(COMPLETE)).toEqual({
    issuer: 'https://login.example.com/tenant/v2.0',
    audience: 'api://agentweaver',
    ownerClaims: ['sub'],
    rolesClaim: 'roles',
    roles: new Map([
      ['dev team', 'user'],
      ['a=b', 'operator'],
    ]),
  })
  expect(read({ ...COMPLETE, AGENTWEAVER_OIDC_ISSUER: 'http://127.0.0.1:8080' })?.issuer).toBe(
    'http://127.0.0.1:8080',
  )
  expect(read({ ...COMPLETE, AGENTWEAVER_OIDC_OWNER_CLAIMS: 'tid, oid' })?.ownerClaims).toEqual([
    'tid',
    'oid',
  ])
})

test.for([
  ['AGENTWEAVER_OIDC_ISSUER', 'http://login.example.com'],
  ['AGENTWEAVER_OIDC_ISSUER', 'https://login.example.com/?a=b'],
  ['AGENTWEAVER_OIDC_ISSUER', 'https://login.example.com/#a'],
  ['AGENTWEAVER_OIDC_ISSUER', 'https://ada:secret@login.example.com'],
  ['AGENTWEAVER_OIDC_ISSUER', 'login.example.com'],
  ['AGENTWEAVER_OIDC_ROLES', 'users=admin'],
  ['AGENTWEAVER_OIDC_ROLES', 'users'],
  ['AGENTWEAVER_OIDC_ROLES', '=user'],
  ['AGENTWEAVER_OIDC_ROLES', 'users=user,users=operator'],
  ['AGENTWEAVER_OIDC_OWNER_CLAIMS', 'a,b,c,d,e'],
  ['AGENTWEAVER_OIDC_OWNER_CLAIMS', 'a,,b'],
] as const)('refuses %s=%s', ([key, value]) => {
  expect(() => read({ ...COMPLETE, [key]: value })).toThrow(key)
})

test.for(['AGENTWEAVER_OIDC_AUDIENCE', 'AGENTWEAVER_OIDC_ROLES'])('requires %s', (key) => {
  const rest = Object.entries(COMPLETE).filter(([name]) => name !== key)
  expect(() => read(Object.fromEntries(rest))).toThrow(`${key}: is required with AGENTWEAVER_OIDC_ISSUER`)
})

test('refuses settings that would have no effect', () => {
  const { AGENTWEAVER_OIDC_ISSUER: _issuer, ...rest } = COMPLETE
  expect(() => read(rest)).toThrow('needs AGENTWEAVER_OIDC_ISSUER')
})
