import { expectedNames, isGateway } from './expectations.ts'
import { ACTORS, type ActorId } from './stage.ts'
import type { World } from './world.ts'

/** Names that nobody lists: an attacker's own, near misses of listed ones, other tenants', and the cluster's. */
const NOBODYS = [
  'example.com',
  'c2VjcmV0.exfiltration.example.net',
  'attacker.vault.azure.net',
  'attacker.openai.azure.com',
  'metadata.google.internal',
  'kubernetes.default.svc.cluster.local',
  'agentweaver-api.agentweaver.svc.cluster.local',
]

/** Names that an actor must not look up, unless it lists them: what others list, and what looks like it. */
export function strangeNames({ environment, egress }: World, actor: ActorId): string[] {
  const ids = Object.keys(ACTORS) as ActorId[]
  const listed = new Set(ids.flatMap((id) => [...expectedNames(environment, egress, id).keys()]))
  const own = [...expectedNames(environment, egress, actor).keys()]
  const near = own.flatMap((name) => [
    `x.${name}`,
    `${name}.example.net`,
    name.split('.').slice(1).join('.'),
    // Gateways may look up every name of their controller's namespace, so this one is theirs.
    ...(isGateway(actor) ? [] : [`x-${name}`]),
  ])
  return [...new Set([...NOBODYS, ...listed, ...near])].filter((name) => !own.includes(name))
}
