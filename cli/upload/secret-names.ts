/** Names of files that usually contain secrets. Only untracked files are compared: a tracked one is in the history too. */
const SECRET_NAMES: readonly RegExp[] = [
  /^\.env(?:\.|$)(?!.*(?:example|sample|template|dist)$)/,
  /^\.envrc$/,
  /\.(?:pem|key|p12|pfx|jks|keystore|kdbx|ppk|ovpn|asc)$/,
  /^id_(?:rsa|dsa|ecdsa|ed25519)(?:_sk)?$/,
  /^\.(?:npmrc|pypirc|netrc|pgpass|htpasswd|git-credentials|vault-token|dockercfg)$/,
  /^_netrc$/,
  /^(?:credentials|secrets?|service[-_]?account|client_secret)[^/]*\.(?:json|ya?ml|toml|ini|txt)$/,
  /^credentials$/,
  /^kubeconfig/,
  /\.(?:tfstate|tfvars)(?:\.backup)?$/,
  /^terraform\.rc$/,
]

/** Folders whose files usually contain secrets. */
const SECRET_FOLDERS = /(?:^|\/)\.(?:aws|azure|gcloud|kube|ssh|gnupg|docker)\//

/** The start of a private key in any file. */
const PRIVATE_KEY = /-----BEGIN (?:[A-Z0-9]+ )*PRIVATE KEY(?: BLOCK)?-----/

/** Bytes of a file in which a private key is searched. */
export const SECRET_SEARCH_BYTES = 65_536

export const hasSecretName = (path: string): boolean => {
  const lower = path.toLowerCase()
  const name = lower.slice(lower.lastIndexOf('/') + 1)
  return SECRET_FOLDERS.test(lower) || SECRET_NAMES.some((pattern) => pattern.test(name))
}

export const hasPrivateKey = (start: Uint8Array): boolean =>
  PRIVATE_KEY.test(Buffer.from(start).toString('latin1'))
