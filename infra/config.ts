import { readFile } from 'node:fs/promises'
import { join, resolve } from 'node:path'
import { getProject, RunError, runtime } from '@pulumi/pulumi'
import { parse } from 'yaml'
import { InfraOutputs } from '../contracts/outputs.ts'
import { type ParsedConfig, parseInfraConfig, parseStackFile } from './config-schema.ts'
import type { InfraConfig, PlatformConfig } from './config-sections.ts'
import { type KubeManifest, lockedObjects } from './plans/controller-release.ts'
import { readRelease } from './release/read-release.ts'
import type { BasePlatform } from './slice/slice.ts'

const ROOT = resolve(import.meta.dirname, '..')

/** Key that `npm run plan` sets beside those of the stack file: nothing is downloaded, and nothing can be made. */
const PLAN_KEY = 'plan'

/** The only reader of the stack's configuration. Throws with every mistake, before any resource is registered. */
export function readConfig(): InfraConfig {
  const prefix = `${getProject()}:`
  const own = Object.entries(runtime.allConfig()).filter(([key]) => key.startsWith(prefix))
  const record = Object.fromEntries(own.map(([key, value]) => [key.slice(prefix.length), fromText(value)]))
  delete record[PLAN_KEY]
  return configOf(parseInfraConfig(record), 'the configuration of this stack')
}

/** The engine hands values over as text, those with structure as JSON. A branch may be called `{x`, which is none. */
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
  const lines = parsed.problems.map(({ path, message }) => `  ${path}: ${message}`)
  throw new RunError([`${what} has ${lines.length} mistake(s):`, ...lines].join('\n'))
}

/**
 * Objects of the pinned controller: the release's own, or in a plan what is known of them without it. Only a dry run may
 * ask for a plan, so that an `up` never applies half an object.
 */
export async function readControllerRelease({ controller }: PlatformConfig): Promise<KubeManifest[]> {
  if (controller.install !== 'upstream') return []
  if (runtime.allConfig()[`${getProject()}:${PLAN_KEY}`] === 'true') {
    if (!runtime.isDryRun()) throw new RunError(`${PLAN_KEY} is for npm run plan: take it out of the stack`)
    return lockedObjects()
  }
  const folder = controller.folder === undefined ? undefined : resolve(ROOT, controller.folder)
  return readRelease({ folder, cache: join(ROOT, '.agentweaver/releases') })
}

/** How the platform of a slice was configured, and what came out of it: two committed files, no state, no secret. */
export async function readBasePlatform(environment: string): Promise<BasePlatform> {
  const stackFile = `Pulumi.${environment}.yaml`
  const { config: keys = {} } = parse(await readFile(join(ROOT, stackFile), 'utf8')) as {
    config?: Record<string, unknown>
  }
  const config = configOf(parseStackFile(keys), stackFile)
  if (config.kind !== 'platform') throw new RunError(`${stackFile} is no platform: a slice is cut from one`)
  const environmentFile = `environments/${environment}.json`
  const { infra } = JSON.parse(await readFile(join(ROOT, environmentFile), 'utf8')) as { infra: unknown }
  const outputs = InfraOutputs.safeParse(infra)
  if (!outputs.success) throw new RunError(`${environmentFile}: section infra: ${outputs.error.message}`)
  return { config, outputs: outputs.data }
}
