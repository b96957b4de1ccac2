import { expect, it } from 'vitest'
import { mistakesWith, PROXY_SIZE } from './fixture.ts'

const CREDENTIALS = [{ id: 'git', variable: 'GIT_TOKEN' }]
const CREDENTIALS_SIZE = { ...PROXY_SIZE, credentials: PROXY_SIZE.container }

it.for<[string, object, object, string]>([
  [
    'credentials without a size of their container',
    PROXY_SIZE,
    { credentials: CREDENTIALS },
    'sizes.egressProxy.credentials: is missing',
  ],
  [
    'a size of the container for credentials, but no credentials',
    CREDENTIALS_SIZE,
    {},
    'sizes.egressProxy.credentials: is there',
  ],
  [
    'two credentials with the same id',
    CREDENTIALS_SIZE,
    { credentials: [{ id: 'a' }, { id: 'a' }] },
    'egress.credentials: has an id twice',
  ],
  [
    'a credential with a value',
    CREDENTIALS_SIZE,
    { credentials: [{ id: 'a', value: 'b' }] },
    'egress.credentials.0: Unrecognized key',
  ],
  [
    'a variable for a client certificate',
    CREDENTIALS_SIZE,
    { credentials: [{ id: 'a', kind: 'client-certificate', variable: 'A' }] },
    'egress.credentials.0.kind: "client-certificate" has no "variable"',
  ],
  [
    'credentials in another mode',
    CREDENTIALS_SIZE,
    { mode: 'closed', credentials: CREDENTIALS },
    'egress.credentials: is there, but',
  ],
  [
    'a root that is not a certificate',
    PROXY_SIZE,
    { roots: ['root'] },
    'egress.roots.0: must be one certificate',
  ],
])('rejects an environment whose egress proxy has %s', ([_what, size, egress, message]) => {
  const mistakes = mistakesWith('local', (value) => {
    value['egress'] = { mode: 'proxy', proxyAddress: '10.0.0.20', ...egress }
    value['sizes'].egressProxy = size
  })

  expect(mistakes.join('\n')).toContain(message)
})
