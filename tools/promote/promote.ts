import { loadEnvironment } from '../../charts-src/environment/load-environment.ts'
import type { Environment } from '../../charts-src/environment/schema.ts'
import { resourceGroupId } from '../../infra/model/platform-names.ts'

/** An environment file: its name and its text. */
export interface EnvironmentFile {
  readonly name: string
  readonly text: string
}

export interface Promoted {
  readonly image: string
  readonly from: string
  readonly to: string
  readonly was: string
}

/**
 * Arguments of `az` that copy one image by digest, so that no other image can take its name during the copy. The source
 * is named by its resource id, because with the host alone `az` searches only the subscription that it is logged in to.
 */
export function importArguments(
  { from, to }: Promoted,
  sourceSubscription: string,
  source: string,
): string[] {
  const [sourceHost = ''] = from.split('/')
  const [targetHost = ''] = to.split('/')
  const nameOf = (host: string) => host.split('.')[0] ?? ''
  const registry = `${resourceGroupId(sourceSubscription, `agentweaver-${source}`)}/providers/Microsoft.ContainerRegistry/registries/${nameOf(sourceHost)}`
  return [
    'acr',
    'import',
    '--name',
    nameOf(targetHost),
    '--registry',
    registry,
    '--source',
    from.slice(sourceHost.length + 1),
    '--repository',
    to.slice(targetHost.length + 1, to.indexOf('@')),
  ]
}

const NO_DIGEST = /@sha256:0{64}$/

function read({ name, text }: EnvironmentFile): Environment {
  const loaded = loadEnvironment(name, text)
  if (loaded.ok) return loaded.environment
  throw new Error(loaded.mistakes.map((mistake) => `environments/${name}.json: ${mistake}`).join('\n'))
}

/** The images of one environment as another would have them: the same digests, in its own registry. */
export function promotions(source: EnvironmentFile, target: EnvironmentFile): Promoted[] {
  const from = read(source)
  const to = read(target)
  if (from.slice.kind !== 'base' || to.slice.kind !== 'base')
    throw new Error('A preview is promoted by merging its branch.')
  return Object.entries(from.images).map(([image, reference]) => {
    const was = to.images[image as keyof typeof to.images]
    if (reference === undefined || was === undefined) throw new Error(`${image} is not in both environments`)
    if (NO_DIGEST.test(reference)) throw new Error(`${source.name} has no published ${image} yet`)
    const path = reference.slice(from.infra.registry.host.length)
    if (!reference.startsWith(`${from.infra.registry.host}/`))
      throw new Error(`${image} of ${source.name} is not in its own registry`)
    return { image, from: reference, to: `${to.infra.registry.host}${path}`, was }
  })
}

/** Returns the target's text with the promoted images and no other change, and checks that it is still valid. */
export function promotedText(target: EnvironmentFile, promoted: readonly Promoted[]): string {
  const text = promoted.reduce(
    (changed, { was, to }) => changed.replaceAll(JSON.stringify(was), () => JSON.stringify(to)),
    target.text,
  )
  read({ ...target, text })
  return text
}

export function promotionPage(promoted: readonly Promoted[]): string {
  const digest = (reference: string) => reference.split('@sha256:')[1]?.slice(0, 12) ?? ''
  return [
    '| image | was | becomes |',
    '|---|---|---|',
    ...promoted.map(({ image, was, to }) => `| ${image} | \`${digest(was)}\` | \`${digest(to)}\` |`),
    '',
  ].join('\n')
}
