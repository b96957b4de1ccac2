import { mkdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { createAuthority, createTokenKeys, issueCertificate, type KeyPair, type Leaf } from './certificate.ts'

/** Writes the certificate files of one cluster into its folder and returns their paths. */
export interface ClusterPki {
  readonly authority: string
  path(file: string): string
  issue(name: string, leaf: Leaf): { readonly certificate: string; readonly key: string }
}

export const API_SERVER_NAMES = [
  'localhost',
  'kubernetes',
  'kubernetes.default',
  'kubernetes.default.svc',
  'kubernetes.default.svc.cluster.local',
] as const

/** The authorities, the API server's own certificates and the token keys of one cluster. */
export function createClusterPki(folder: string, addresses: readonly string[]): ClusterPki {
  mkdirSync(folder, { recursive: true, mode: 0o700 })
  const path = (file: string) => join(folder, file)
  const write = (name: string, pair: KeyPair) => {
    writeFileSync(path(`${name}.crt`), pair.certificate)
    writeFileSync(path(`${name}.key`), pair.key, { mode: 0o600 })
    return { certificate: path(`${name}.crt`), key: path(`${name}.key`) }
  }
  const cluster = createAuthority('kubernetes-ca')
  const front = createAuthority('front-proxy-ca')
  write('ca', cluster)
  write('front-proxy-ca', front)
  write(
    'front-proxy-client',
    issueCertificate(front, { subject: { commonName: 'front-proxy-client' }, usage: 'client' }),
  )
  const tokens = createTokenKeys()
  writeFileSync(path('tokens.pub'), tokens.publicKey)
  writeFileSync(path('tokens.key'), tokens.privateKey, { mode: 0o600 })
  const issue = (name: string, leaf: Leaf) => write(name, issueCertificate(cluster, leaf))
  issue('apiserver', {
    subject: { commonName: 'kube-apiserver' },
    usage: 'server',
    names: [...API_SERVER_NAMES, ...addresses],
  })
  issue('apiserver-kubelet-client', { subject: { commonName: KUBELET_CLIENT }, usage: 'client' })
  return { authority: path('ca.crt'), path, issue }
}

/** The user that the API server uses to call kubelets for exec, logs and port-forward. */
export const KUBELET_CLIENT = 'kube-apiserver-kubelet-client'
