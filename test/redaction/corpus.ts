/** A PEM body long enough to be one, in the form a tool writes it. */
export const PEM = [
  '-----BEGIN RSA PRIVATE KEY-----',
  'MIIEpAIBAAKCAQEA0Z3VS5JJcds3xfn/ygWyF0rRZ4vHgP1qk9b8jT7yYtq1hQbB',
  'x5Zc0mJk2f8v7n1yq3w9E5r6t7y8u9i0oPaSdFgHjKlZxCvBnMqWeRtYuIoPaSdF',
  '-----END RSA PRIVATE KEY-----',
].join('\n')

/** Text that holds a secret, the secret itself, and the kind that must stand in its place. */
export const SECRETS: readonly (readonly [text: string, secret: string, kind: string])[] = [
  ['Authorization: Bearer abcdef0123456789', 'abcdef0123456789', 'key'],
  ['curl -H "x: bearer 9f8e7d6c5b4a3210" y', '9f8e7d6c5b4a3210', 'bearer'],
  ['proxy said Basic dXNlcjpwYXNzd29yZA== here', 'dXNlcjpwYXNzd29yZA==', 'basic'],
  [
    'jwt eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0NTY3ODkwIn0.dozjgNryP4J3jVmN end',
    'eyJzdWIiOiIxMjM0NTY3ODkwIn0',
    'jwt',
  ],
  ['id AKIAIOSFODNN7EXAMPLE.', 'AKIAIOSFODNN7EXAMPLE', 'aws-key'],
  [
    'aws_secret_access_key = wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY',
    'wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY',
    'key',
  ],
  ...['ghp_', 'gho_', 'ghu_', 'ghs_', 'ghr_'].map((prefix) => {
    const token = `${prefix}16C7e42F292c6912E7710c838347Ae178B4a`
    return [`token is ${token}, keep it`, token, 'github-token'] as const
  }),
  ['github_pat_11ABCDEFG0123456789_abcdefghijklmnopqrstuvwxyz', '11ABCDEFG0123456789', 'github-token'],
  [
    'https://a.blob.core.windows.net/c?sv=2024&sig=Zm9vYmFyYmF6cXV4Zm9v%2Bbar%3D&se=1',
    'Zm9vYmFyYmF6cXV4',
    'azure-secret',
  ],
  [
    'DefaultEndpointsProtocol=https;AccountKey=Zm9vYmFyYmF6cXV4Zm9vYmFyYmF6cXV4==;End=x',
    'Zm9vYmFyYmF6',
    'azure-secret',
  ],
  ['Endpoint=sb://x/;SharedAccessKey=Zm9vYmFyYmF6cXV4Zm9vYmFy=', 'Zm9vYmFyYmF6cXV4Zm9v', 'azure-secret'],
  ['value abc8Q~0123456789abcdefghij0123456789xyz.', 'Q~0123456789abcdefghij', 'azure-secret'],
  [`key:\n${PEM}\nnext line`, 'MIIEpAIBAAKCAQEA0Z3VS5JJcds3', 'private-key'],
  [JSON.stringify({ pem: PEM }), 'MIIEpAIBAAKCAQEA0Z3VS5JJcds3', 'private-key'],
  ['xoxb-123456789012-abcdefGHIJ', '123456789012-abcdef', 'slack-token'],
  ['https://hooks.slack.com/services/T00000000/B00000000/XXXXabcd', 'B00000000/XXXXabcd', 'slack-token'],
  [`stripe ${'sk_'}live_abcdefghij0123456789`, 'live_abcdefghij', 'stripe-key'],
  ['npm_abcdefghijklmnopqrstuvwxyz0123456789', 'abcdefghijklmnopqrstuvwxyz', 'npm-token'],
  [`pypi-AgEIcHlwaS5vcmc${'Ab1'.repeat(20)}`, 'AgEIcHlwaS5vcmc', 'pypi-token'],
  [`AIza${'SyA1'.repeat(9)}`, 'SyA1SyA1', 'google-key'],
  ['sk-proj-abc123DEF456ghi789JKL', 'abc123DEF456', 'ai-key'],
  ['sk-ant-api03-abc123DEF456ghi789JKL', 'abc123DEF456', 'ai-key'],
  ['postgres://app:s3cr3tpw@db:5432/x', 's3cr3tpw', 'url-password'],
  ['mysql://root:p/w#1@host/db', 'p/w#1', 'url-password'],
  ['https://0123456789abcdef0123@github.com/x', '0123456789abcdef0123', 'url-password'],
  ['export DB_PASSWORD=correcthorse', 'correcthorse', 'password'],
  ['password: correcthorse', 'correcthorse', 'password'],
  ['{"password": "correct horse, battery"}', 'correct horse, battery', 'password'],
  ['{\\"password\\":\\"correct-horse\\"}', 'correct-horse', 'password'],
  ["client_secret: 'abc-def-ghi'", 'abc-def-ghi', 'password'],
  ['mysql --password correcthorse -u x', 'correcthorse', 'password'],
  ['["--token", "correcthorse"]', 'correcthorse', 'key'],
  ['X-Api-Key: 123abc456def', '123abc456def', 'key'],
  ['API_KEY=abc-def-ghi-jkl', 'abc-def-ghi-jkl', 'key'],
  ['refresh_token = "1//abc-def-ghi"', '1//abc-def-ghi', 'key'],
  ['passphrase="a\\"quoted\\" one"', 'quoted', 'password'],
]

/** Personal data, hidden only where that is asked for. */
export const PERSONAL: readonly (readonly [text: string, secret: string, kind: string])[] = [
  ['mail jane.doe+x@mail.contoso.co.uk now', 'jane.doe+x@mail.contoso.co.uk', 'email'],
  ['<jane@contoso.com>', 'jane@contoso.com', 'email'],
  ['from 10.20.30.40 port 22', '10.20.30.40', 'ipv4'],
  ['http://8.8.8.8:80/', '8.8.8.8', 'ipv4'],
  ['ADDR=172.16.0.1', '172.16.0.1', 'ipv4'],
  ['at fe80::1ff:fe23:4567:890a here', 'fe80::1ff:fe23:4567:890a', 'ipv6'],
  ['[2a00:1450:4001:82a::200e]:443', '2a00:1450:4001:82a::200e', 'ipv6'],
  ['2a00:1450:4001:082a:0000:0000:0000:200e', '2a00:1450:4001:082a:0000:0000:0000:200e', 'ipv6'],
  ['::ffff:10.1.2.3', '::ffff:10.1.2.3', 'ipv6'],
]

/** Text that must come out exactly as it went in. */
export const HARMLESS: readonly string[] = [
  'commit 8314eb4a7e7422365c0fca8314eb4a7e7422365c',
  'tree 9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08',
  'id 550e8400-e29b-41d4-a716-446655440000',
  '"integrity": "sha512-Zm9vYmFyYmF6cXV4Zm9vYmFyYmF6cXV4Zm9vYmFyYmF6cXV4Zm9vYmFyYmF6cXV4Zm9vYmFyYg=="',
  '"resolved": "https://registry.example/lodash/-/lodash-4.17.21.tgz"',
  'image@sha256:9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08',
  '/subscriptions/550e8400-e29b-41d4-a716-446655440000/resourceGroups/rg/providers/Microsoft.KeyVault/vaults/kv',
  'AZURE_CLIENT_ID=550e8400-e29b-41d4-a716-446655440000',
  '2026-11-22T00:00:00.000Z 12:34:56 run_0123456789abcdef0123456789abcdef',
  'aa:bb:cc:dd:ee:ff',
  'version 1.2.3.4, v1.2.3.4, 1.2.3.4-beta, pkg==1.2.3.4, Chrome/120.0.0.0, AssemblyVersion("1.0.0.0")',
  'node@24 @types/node@24.19.2 actions/checkout@v4.1.0 git@github.com:owner/repo.git',
  '127.0.0.1 0.0.0.0 ::1 :: 255.255.255.0 192.0.2.7 2001:db8::1',
  'std::vector<int> Foo::bar a::b dead::beef',
  'password: string; token: Token; secret: SecretRef',
  'const token = getToken(); const password = input.value; token = tokens[0]',
  'password=self.password, token=token, secret=$SECRET, key=value',
  'password: ${DB_PASSWORD} token: <your-token> secret: "****"',
  'if (password == null) throw new Error("no password")',
  'max_tokens: 4096, "inputTokens": 12, token: 5',
  'PWD=/srv/project OLDPWD=/tmp',
  'basic information, bearer authentication, Basic authentication failed',
  'risk-assessment-of-the-century-2024 task-force-sk-a disk-usage',
  'the line -----BEGIN PRIVATE KEY----- begins a key file',
  '-----BEGIN CERTIFICATE-----\nMIIDdzCCAl+gAwIBAgIEAgAAuTANBgkqhkiG9w0BAQUFADBaMQswCQYD\n-----END CERTIFICATE-----',
  'http://localhost:8080/path@1 https://example.com/a:b@c',
  'import { x } from "./y.ts" // see docs/readme.md:12:3',
  'größe: 12 µm – “quoted” 日本語 🙂',
]
