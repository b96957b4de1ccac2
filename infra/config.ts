import { existsSync } from 'node:fs'
import { readFile } from 'node:fs/promises'
import { join, resolve } from 'node:path'
import { getProject, getStack, RunError, runtime } from '@pulumi/pulumi'
import { InfraOutputs } from '../contracts/outputs.ts'
import { type ParsedConfig, parseInfraConfig, parseStackFile, withProblems } from './config-schema.ts'
import {
  type ConfigProblem,
  type InfraConfig,
  type LayerConfig,
  type PlatformConfig,
  problemLines,
} from './config-sections.ts'
import { type KubeManifest, lockedObjects } from './model/controller-release.ts'
import { layerStack } from './model/layers.ts'
import { RELEASE_FOLDER, ReleaseError, readRelease } from './release/read-release.ts'
import type { BasePlatform } from './slice/slice.ts'
import { readStackText } from './stack-file.ts'

const ROOT = resolve(import.meta.dirname, '..')

/** Key that `npm run plan` adds to the stack file's keys: the program downloads nothing and can create nothing. */
const PLAN_KEY = 'plan'

/** The only reader of the stack's configuration. Throws with every mistake, before any resource is registered. */
export async function readConfig(): Promise<InfraConfig> {
  const prefix = `${getProject()}:`
  const own = Object.entries(runtime.allConfig()).filter(([key]) => key.startsWith(prefix))
  const record = Object.fromEntries(own.map(([key, value]) => [key.slice(prefix.length), fromText(value)]))
  delete record[PLAN_KEY]
  return configOf(
    withProblems(parseInfraConfig(record), await ambiguities()),
    'the configuration of this stack',
  )
}

/**
 * Values in this stack's file that YAML parsers read differently. The engine has parsed the file by Go's rules, and
 * only the values arrive here: `012` arrives as 10. A stack file at another path (`--config-file`) is not checked.
 */
async function ambiguities(): Promise<readonly ConfigProblem[]> {
  const file = join(ROOT, `Pulumi.${getStack()}.yaml`)
  return existsSync(file) ? readStackText(await readFile(file, 'utf8')).problems : []
}

/** The engine passes values as text, and structured ones as JSON. A branch named `{x` is plain text. */
function fromText(text: string): unknown {
  if (!/^[[{]/.test(text)) return text
  try {
    return JSON.parse(text)
  } catch {
    return text
  }
}

function configOf(parsed: ParsedConfig, what: string): InfraConfig {
  if ('config' in parsed) return parsed.config
  throw new RunError(problemLines(what, parsed.problems))
}

/**
 * Objects of the pinned controller: the release's objects, or for a plan only the names that are known without the
 * release. Only a dry run may ask for a plan, so that `pulumi up` never applies a partial object.
 */
export async function readControllerRelease({ controller }: PlatformConfig): Promise<KubeManifest[]> {
  if (controller.install !== 'upstream') return []
  if (runtime.allConfig()[`${getProject()}:${PLAN_KEY}`] === 'true') {
    if (!runtime.isDryRun()) throw new RunError(`${PLAN_KEY} is for npm run plan: take it out of the stack`)
    return lockedObjects()
  }
  try {
    return await readRelease(resolve(ROOT, controller.folder ?? RELEASE_FOLDER))
  } catch (error) {
    throw error instanceof ReleaseError ? new RunError(error.message) : error
  }
}

/** How the platform of a slice was configured, and what came out of it: two committed files, no state, no secret. */
export async function readBasePlatform(environment: string): Promise<BasePlatform> {
  const config = await readPlatform(environment)
  const environmentFile = `environments/${environment}.json`
  const { infra } = JSON.parse(await readFile(join(ROOT, environmentFile), 'utf8')) as { infra: unknown }
  const outputs = InfraOutputs.safeParse(infra)
  if (!outputs.success) throw new RunError(`${environmentFile}: section infra: ${outputs.error.message}`)
  return { config, outputs: outputs.data }
}

/** The settings of the platform that this stack is a layer of. The stack is called after both, so it is no other's. */
export async function readLayeredPlatform({ environment, layer }: LayerConfig): Promise<PlatformConfig> {
  const stack = layerStack(environment, layer)
  if (getStack() !== stack)
    throw new RunError(
      `the layer ${layer} of ${environment} is the stack ${stack}, and this is ${getStack()}`,
    )
  return readPlatform(environment)
}

async function readPlatform(environment: string): Promise<PlatformConfig> {
  const file = `Pulumi.${environment}.yaml`
  const path = join(ROOT, file)
  if (!existsSync(path)) throw new RunError(`${file} is missing: it has the settings of the platform`)
  const config = configOf(parseStackFile(readStackText(await readFile(path, 'utf8'))), file)
  if (config.kind === 'platform' && config.layer === 'all') return config
  throw new RunError(`${file} is not the whole platform: its kind must be platform, and its layer all`)
}
