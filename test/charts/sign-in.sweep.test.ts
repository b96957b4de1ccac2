import { describe, expect, it } from 'vitest'
import { checkReachability } from '../../charts-src/access-matrix/check-reachability.ts'
import { checkTree } from '../../charts-src/checks/check-tree.ts'
import { loadEnvironment } from '../../charts-src/environment/load-environment.ts'
import type { Environment } from '../../charts-src/environment/schema.ts'
import { readConfig } from '../../runtime/api/config.ts'
import {
  aTree,
  type EnvironmentName,
  environmentText,
  type Loose,
  mistakesWith,
  objectIn,
} from './fixture.ts'

const SIGN_IN = {
  issuer: 'https://login.corp.example.com/realms/a',
  audience: 'api://agentweaver',
  ownerClaims: ['tid', 'oid'],
  rolesClaim: 'groups',
  roles: { 'dev team': 'user', 'a=b': 'operator' },
  client: {
    id: 'cli',
    scopes: ['openid', 'api'],
    resource: 'https://agentweaver.example.com/api',
    deviceCode: false,
  },
}

function environmentWith(signIn: unknown, change: (value: Loose) => void = () => undefined): Environment {
  const name: EnvironmentName = 'prod'
  const value = JSON.parse(environmentText(name)) as Loose
  value['signIn'] = signIn
  change(value)
  const loaded = loadEnvironment(name, JSON.stringify(value))
  if (!loaded.ok) throw new Error(loaded.mistakes.join('\n'))
  return loaded.environment
}

const envOf = (environment: Environment): Record<string, string> => {
  const { containers } = objectIn(aTree(environment), 'Deployment', 'agentweaver-api')['spec'].template.spec
  const env = containers[0].env as { name: string; value: string }[]
  return Object.fromEntries(env.map(({ name, value }) => [name, value]))
}

const read = (environment: Environment) => {
  const { NODE_EXTRA_CA_CERTS: _roots, ...env } = envOf(environment)
  return readConfig(env, { home: '/home/a', cwd: '/home/a' })
}

/** Names that the API may connect to at port 443. */
const namesOf = (environment: Environment): string[] => {
  const { egress } = objectIn(aTree(environment), 'CiliumNetworkPolicy', 'api-egress')['spec']
  return egress.flatMap(({ toFQDNs = [] }: Loose) => toFQDNs.map(({ matchName }: Loose) => matchName))
}

describe('the sign-in of an environment', () => {
  it('becomes settings of the API, which reads them', () => {
    const { signIn, signInMethods } = read(environmentWith(SIGN_IN))
    expect(signIn).toEqual({
      issuer: SIGN_IN.issuer,
      audience: SIGN_IN.audience,
      ownerClaims: ['tid', 'oid'],
      rolesClaim: 'groups',
      roles: new Map(Object.entries(SIGN_IN.roles)),
    })
    expect(signInMethods.oidc).toEqual({
      issuer: SIGN_IN.issuer,
      clientId: 'cli',
      scopes: ['openid', 'api'],
      resource: SIGN_IN.client.resource,
      deviceCode: false,
    })
  })

  it('opens the hosts of the issuer at port 443 to the API, and nothing else', () => {
    const without = environmentWith(undefined)
    const withIssuer = environmentWith({ ...SIGN_IN, keysHost: 'keys.corp.example.com' })
    const added = namesOf(withIssuer).filter((name) => !namesOf(without).includes(name))
    expect(added.sort()).toEqual(['keys.corp.example.com', 'login.corp.example.com'])
    const objects = aTree(withIssuer).objects.map(({ object }) => object)
    expect(checkReachability(objects, withIssuer)).toEqual([])
    expect(checkTree(aTree(withIssuer))).toEqual([])
  })

  it('is checked by the assertions: they report a policy without the issuer, and one with a name that is not meant (control)', () => {
    const objects = aTree(environmentWith(undefined)).objects.map(({ object }) => object)
    const failures = checkReachability(objects, environmentWith(SIGN_IN))
    expect(failures.join('\n')).toContain('login.corp.example.com')
    const more = aTree(environmentWith({ ...SIGN_IN, issuer: 'https://example.com' })).objects.map(
      ({ object }) => object,
    )
    expect(checkReachability(more, environmentWith(undefined)).join('\n')).toContain('example.com')
  })

  it('makes the API trust the roots of the company, if there are any', () => {
    const roots = ['-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n']
    const withRoots = (value: Loose) => {
      value['egress'].roots = roots
    }
    const file = envOf(environmentWith(SIGN_IN, withRoots))['AGENTWEAVER_EGRESS_ROOTS_FILE']
    expect(envOf(environmentWith(SIGN_IN, withRoots))['NODE_EXTRA_CA_CERTS']).toBe(file)
    expect(envOf(environmentWith(SIGN_IN))['NODE_EXTRA_CA_CERTS']).toBeUndefined()
    expect(envOf(environmentWith(undefined, withRoots))['NODE_EXTRA_CA_CERTS']).toBeUndefined()
    expect(checkTree(aTree(environmentWith(SIGN_IN, withRoots)))).toEqual([])
  })

  it('is optional, and the client too', () => {
    expect(read(environmentWith(undefined)).signIn).toBeUndefined()
    const { client: _client, ...rest } = SIGN_IN
    expect(read(environmentWith(rest)).signInMethods).toEqual({})
  })

  it.each([
    ['issuer', 'http://login.example.com'],
    ['issuer', 'https://login.example.com:8443'],
    ['issuer', 'https://LOGIN.example.com'],
    ['issuer', 'https://ada@login.example.com'],
    ['issuer', 'https://169.254.169.254'],
    ['issuer', 'https://login.example.com/?a=b'],
    ['issuer', 'https://localhost'],
    ['keysHost', '*.example.com'],
    ['keysHost', '10.0.0.1'],
    ['roles', {}],
    ['roles', { 'a,b': 'user' }],
    ['roles', { a: 'admin' }],
    ['ownerClaims', ['a,b']],
    ['client', { id: 'cli', scopes: ['api'] }],
    ['client', { id: 'cli', secret: 'x' }],
  ])('refuses %s: %j', (field, value) => {
    const mistakes = mistakesWith('prod', (file) => {
      file['signIn'] = { ...SIGN_IN, [field]: value }
    })
    expect(mistakes.join('\n')).toContain(`signIn.${field}`)
  })
})
