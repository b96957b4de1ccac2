/**
 * Runs a fake Entra, a fake vault, and a proxy that routes their real names to them, in a separate process: `node
 * test/fakes/azure-main.ts CONFIG.json`. Prints the proxy's address and the CA certificate, and exits when its stdin
 * closes.
 */
import { readFileSync } from 'node:fs'
import * as z from 'zod'
import { startEntra } from './entra.ts'
import { DATA_ACTIONS, startKeyVault } from './key-vault.ts'
import { startNameProxy } from './name-proxy.ts'
import { createTestAuthority } from './test-authority.ts'
import { startTlsFront } from './tls-front.ts'

const Config = z.strictObject({
  tenantId: z.guid(),
  loginHost: z.string(),
  vaultHost: z.string(),
  federated: z.array(z.strictObject({ clientId: z.guid(), issuer: z.string(), subject: z.string() })),
  /** The key set of each cluster's issuer. */
  issuers: z.record(z.string(), z.object({ keys: z.array(z.record(z.string(), z.unknown())) })),
  roles: z.record(z.string(), z.array(z.enum(DATA_ACTIONS))),
  secrets: z.record(z.string(), z.string()),
  /** Additional host names. Each routes to a plaintext server on this machine, with TLS in front. */
  fronts: z.record(z.string(), z.int()),
  /** Address of the proxy, which is the only way to the servers. */
  host: z.string(),
})
export type AzureConfig = z.infer<typeof Config>

const { tenantId, loginHost, vaultHost, host, ...config } = Config.parse(
  JSON.parse(readFileSync(process.argv[2] ?? '', 'utf8')),
)
const authority = createTestAuthority()
const login = `https://${loginHost}`
const entra = await startEntra({
  tls: authority.serverFor(loginHost),
  tenantId,
  authority: login,
  federated: config.federated,
  issuerKeys: async (issuer) => (config.issuers[issuer] ?? { keys: [] }) as never,
})
const vault = await startKeyVault({
  tls: authority.serverFor(vaultHost),
  url: `https://${vaultHost}`,
  tenantId,
  authority: login,
  tokens: { issuer: entra.issuer, keys: async () => entra.jwks },
  roles: config.roles,
})
for (const [name, value] of Object.entries(config.secrets)) vault.setSecret(name, value)
const names = new Map([
  [loginHost, entra.port],
  [vaultHost, vault.port],
])
for (const [name, port] of Object.entries(config.fronts))
  names.set(name, (await startTlsFront(authority.serverFor(name), port)).port)
const proxy = await startNameProxy(names, host)
process.stdout.write(`${JSON.stringify({ proxy: proxy.url, authority: authority.certificate })}\n`)
process.stdin.resume().on('end', () => process.exit(0))
