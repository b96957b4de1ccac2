import { generateKeyPairSync, type KeyObject } from 'node:crypto'
import { exportJWK } from 'jose'
import type { ConfigureRequestInput } from '../../contracts/configure.ts'
import { SandboxSettings } from '../../contracts/policy.ts'

export const TOKEN = 'A'.repeat(43)

export const aConfiguration = (change: Partial<ConfigureRequestInput> = {}): ConfigureRequestInput => ({
  runId: 'run-1',
  generation: 1,
  userId: 'user-1',
  turnBearerToken: TOKEN,
  digestKey: 'D'.repeat(43),
  credential: { kind: 'none' },
  agent: { kind: 'none' },
  governance: { version: '1', settings: SandboxSettings.parse({}) },
  workingDirectory: '/workspace',
  ...change,
})

export const keyPair = (): KeyObject => generateKeyPairSync('ed25519').privateKey

export async function jwkOf(privateKey: KeyObject, kid: string) {
  const { d: _private, ...jwk } = await exportJWK(privateKey)
  return { ...jwk, kid, alg: 'EdDSA', use: 'sig' }
}
