import { describe, expect, it } from 'vitest'
import { hostFault } from '../../policies/agent/egress/host.ts'

describe('a host', () => {
  it.each([
    'api.github.com',
    'registry.npmjs.org',
    'my-vault.vault.azure.net',
    'resource.openai.azure.com',
    'account.blob.core.windows.net',
    'me.github.io',
    '*.githubusercontent.example.com',
    '*.npmjs.org',
    '*.my-vault.vault.azure.net',
    'xn--bcher-kva.ch',
  ])('accepts %s', (host) => {
    expect(hostFault(host)).toBeUndefined()
  })

  it.each([
    ['*', 'every name'],
    ['*.com', 'com is a public suffix'],
    ['com', 'is a public suffix'],
    ['*.co.uk', 'co.uk is a public suffix'],
    ['co.uk', 'use the host: <host>.co.uk'],
    [
      '*.vault.azure.net',
      'use the name of your vault: <vault>.vault.azure.net, or the placeholder user-token-vault',
    ],
    ['vault.azure.net', 'use the name of your vault'],
    ['*.openai.azure.com', 'use the name of your resource: <resource>.openai.azure.com'],
    ['*.blob.core.windows.net', 'use the name of your account: <account>.blob.core.windows.net'],
    ['*.github.io', "is shared by all customers of its provider; use one tenant's name: <name>.github.io"],
    ['*.githubusercontent.com', 'is shared by all customers'],
    ['*.s3.amazonaws.com', 'is shared by all customers'],
    ['storage.googleapis.com', 'use the name of your bucket'],
    ['*.azure.net', 'has other tenants below vault.azure.net'],
    ['*.windows.net', 'has other tenants below'],
    ['*.nip.io', 'resolve to any address that they contain'],
    ['*.sslip.io', 'resolve to any address that they contain'],
    ['*.*.example.com', 'more than one "*"'],
    ['api.*.com', 'more than one "*"'],
    ['a*.example.com', 'more than one "*"'],
    ['*example.com', 'matches parts of a label'],
    ['**.example.com', 'matches parts of a label'],
    ['API.github.com', '"api.github.com"'],
    ['api.github.com.', 'must not end in a dot'],
    ['10.0.0.1', 'is an address'],
    ['169.254.169.254', 'is an address'],
    ['::1', 'is an address'],
    ['localhost', 'is not a full host name'],
    ['api.github.com:443', 'is not a full host name'],
    ['https://api.github.com', 'is not a full host name'],
    ['api github.com', 'is not a full host name'],
    ['api..github.com', 'is not a full host name'],
    ['', 'is not a full host name'],
    ['kubernetes.default.svc', 'is an internal name'],
    ['kube-dns.kube-system.svc.cluster.local', 'is an internal name'],
    ['metadata.google.internal', 'is an internal name'],
    ['printer.lan', 'is an internal name'],
    ['0x7f.1', 'is not a full host name'],
    ['api.nosuchsuffix', 'ends in a suffix that does not exist on the internet'],
    ['a'.repeat(64).concat('.com'), 'is not a full host name'],
    [`${'a.'.repeat(130)}com`, 'is not a full host name'],
    ['bücher.example.org', 'is not a full host name'],
  ])('may not be %j: %s', (host, reason) => {
    expect(hostFault(host)).toContain(reason)
  })
})
