import { createHash } from 'node:crypto'

const digest = (text: string) => createHash('sha256').update(text).digest('hex')

/**
 * Azure's limits for names, by resource type. `alphabet` lists the characters allowed between the first and the last
 * one.
 */
export const NAME_LIMITS = {
  cluster: { max: 63, pattern: /^[a-zA-Z0-9](?:[a-zA-Z0-9_-]*[a-zA-Z0-9])?$/ },
  dnsPrefix: { max: 54, pattern: /^[a-zA-Z0-9](?:[a-zA-Z0-9-]*[a-zA-Z0-9])?$/ },
  nodePool: { max: 12, pattern: /^[a-z][a-z0-9]*$/ },
  resourceGroup: { max: 90, pattern: /^[a-zA-Z0-9_.()-]*[a-zA-Z0-9_()-]$/ },
  nodeResourceGroup: { max: 80, pattern: /^[a-zA-Z0-9_.()-]*[a-zA-Z0-9_()-]$/ },
  vault: { max: 24, pattern: /^[a-zA-Z](?:-?[a-zA-Z0-9]){2,}$/ },
  registry: { max: 50, pattern: /^[a-zA-Z0-9]{5,}$/ },
  identity: { max: 128, pattern: /^[a-zA-Z0-9][a-zA-Z0-9_-]{2,}$/ },
  federatedCredential: { max: 120, pattern: /^[a-zA-Z0-9][a-zA-Z0-9_-]{2,}$/ },
  database: { max: 63, pattern: /^[a-z0-9](?:[a-z0-9-]*[a-z0-9])$/ },
  privateEndpoint: { max: 80, pattern: /^[a-zA-Z0-9](?:[a-zA-Z0-9_.-]*[a-zA-Z0-9_])?$/ },
} as const

/** Whether Azure accepts a name. */
export function fitsAzure(kind: keyof typeof NAME_LIMITS, name: string): boolean {
  const { max, pattern } = NAME_LIMITS[kind]
  return name.length <= max && pattern.test(name)
}

/**
 * A name that is unique across Azure. Five hash digits of subscription and name prevent a collision with the name of
 * another customer or with a deleted resource that still holds its name. A long name is cut before the digits.
 */
export function globalName(args: {
  readonly max: number
  readonly parts: readonly string[]
  readonly salt: string
  readonly separator?: string
}): string {
  const { max, parts, salt, separator = '-' } = args
  const hash = digest([salt, ...parts].join('|')).slice(0, 5)
  const room = max - hash.length - separator.length
  const readable = parts
    .join(separator)
    .slice(0, room)
    .replace(/[^a-z0-9]+$/, '')
  return `${readable}${separator}${hash}`
}

/** Namespace of our UUIDs of version 5, itself one of the name `agentweaver.io` in the namespace of DNS names. */
const UUID_NAMESPACE = uuidV5('6ba7b810-9dad-11d1-80b4-00c04fd430c8', 'agentweaver.io')

function uuidV5(namespace: string, name: string): string {
  const bytes = createHash('sha1')
    .update(Buffer.from(namespace.replaceAll('-', ''), 'hex'))
    .update(name)
    .digest()
    .subarray(0, 16)
  bytes.writeUInt8((bytes.readUInt8(6) & 0x0f) | 0x50, 6)
  bytes.writeUInt8((bytes.readUInt8(8) & 0x3f) | 0x80, 8)
  const hex = bytes.toString('hex')
  return [hex.slice(0, 8), hex.slice(8, 12), hex.slice(12, 16), hex.slice(16, 20), hex.slice(20)].join('-')
}

/**
 * Name of a role assignment; Azure requires a GUID. It is derived from logical names, so that it is known before
 * anything exists. `generation` increases when a principal was recreated under its old name, because Azure refuses to
 * update the principal.
 */
export function roleAssignmentGuid(args: {
  readonly stack: string
  readonly scope: string
  readonly principal: string
  readonly role: string
  readonly generation: number
}): string {
  const { stack, scope, principal, role, generation } = args
  return uuidV5(UUID_NAMESPACE, JSON.stringify([stack, scope, principal, role, generation]))
}

/** GUID of a custom role, stable by subscription and name. */
export function customRoleGuid(subscriptionId: string, name: string): string {
  return uuidV5(UUID_NAMESPACE, JSON.stringify(['role', subscriptionId, name]))
}
