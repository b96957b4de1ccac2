import { existsSync } from 'node:fs'
import { readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { type ParsedConfig, parseStackFile } from '../config-schema.ts'
import { type InfraConfig, type PlatformConfig, problemLines } from '../config-sections.ts'
import { LAYERS, type Layer, layerStack } from '../model/layers.ts'
import { readStackText } from '../stack-file.ts'

/** An error in the arguments or in a file. The message contains the next step. */
export class UpError extends Error {
  override readonly name = 'UpError'
}

export interface StackToRaise {
  readonly stack: string
  /** Undefined if one stack contains all layers. */
  readonly layer?: Layer
}
export interface Environment {
  readonly platform: PlatformConfig
  readonly stacks: readonly StackToRaise[]
}

/**
 * Returns the stacks of an environment in the order of their creation: its layers if their files exist, otherwise the
 * one stack. All files are read and checked first, so that an error in the last layer costs no hour.
 */
export async function findStacks(root: string, environment: string, last?: Layer): Promise<Environment> {
  const platform = await readConfigOf(root, environment)
  if (platform.kind !== 'platform' || platform.layer !== 'all')
    throw new UpError(`Pulumi.${environment}.yaml is no platform: give the name of an environment.`)
  const files = LAYERS.map((layer) => ({ layer, stack: layerStack(platform.environment, layer) }))
  const missing = files.filter(({ stack }) => !existsSync(join(root, `Pulumi.${stack}.yaml`)))
  if (missing.length === LAYERS.length) return { platform, stacks: one(environment, platform, last) }
  if (missing.length > 0)
    throw new UpError(
      `${environment} has stack files of some layers only. Missing: ${missing.map(({ stack }) => `Pulumi.${stack}.yaml`).join(', ')}.`,
    )
  if (platform.environment !== environment)
    throw new UpError(
      `Pulumi.${environment}.yaml is the environment ${platform.environment}: its layers are raised by that name.`,
    )
  for (const { layer, stack } of files) {
    const config = await readConfigOf(root, stack)
    if (config.kind !== 'platform' || config.layer !== layer || config.environment !== environment)
      throw new UpError(`Pulumi.${stack}.yaml must be the layer ${layer} of the environment ${environment}.`)
  }
  const until = last === undefined ? LAYERS.length : LAYERS.indexOf(last) + 1
  return { platform, stacks: files.slice(0, until) }
}

function one(environment: string, platform: PlatformConfig, last: Layer | undefined): StackToRaise[] {
  if (last !== undefined)
    throw new UpError(`${environment} is one stack: it has no layer ${last}. Leave --to out.`)
  if (platform.apiServer.access === 'private' && platform.network.existing === undefined)
    throw new UpError(
      [
        `The API server of ${environment} is reached from its network alone, and one stack cannot make both. Write a stack file for each layer:`,
        ...LAYERS.map((layer) => `  Pulumi.${layerStack(platform.environment, layer)}.yaml`),
        'Pulumi.prod-network.yaml is an example; docs/private-cluster.md has the steps.',
      ].join('\n'),
    )
  return [{ stack: environment }]
}

async function readConfigOf(root: string, stack: string): Promise<InfraConfig> {
  const file = `Pulumi.${stack}.yaml`
  const path = join(root, file)
  if (!existsSync(path))
    throw new UpError(`There is no ${file}: --stack is the name of an environment, as dev.`)
  const parsed = parsedText(file, await readFile(path, 'utf8'))
  if ('config' in parsed) return parsed.config
  throw new UpError(problemLines(file, parsed.problems))
}

function parsedText(file: string, text: string): ParsedConfig {
  try {
    return parseStackFile(readStackText(text))
  } catch (error) {
    throw new UpError(`${file}: ${error instanceof Error ? error.message : String(error)}`, { cause: error })
  }
}
