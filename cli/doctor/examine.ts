import { stat } from 'node:fs/promises'
import { join } from 'node:path'
import { API_ENV_PREFIX, ApiEnv, CLIENT_ENV_KEYS } from '../../contracts/api-env.ts'
import { createClient } from '../../runtime/client/client.ts'
import { explainLadder, type Rung } from '../../runtime/executors/select.ts'
import { errnoOf, messageOf, SandboxError } from '../../runtime/kit/errors.ts'
import { type EnvSource, parseEnv } from '../../runtime/kit/parse-env.ts'
import { API_KEY_FILE, type ClientConfig } from '../service/client-config.ts'
import { answers } from '../service/connect.ts'
import type { Finding } from './finding.ts'

const OUTSIDE_PREFIX = ['DATABASE_URL', 'OPENAI_BASE_URL', 'OPENAI_API_KEY', 'COPILOT_GITHUB_TOKEN']
const PINNED_MAJOR = 24
/** Rights of group and others. */
const SHARED_BITS = 0o077

/** Looks at everything that a run on this machine needs. */
export async function examine(config: ClientConfig, env: EnvSource): Promise<Finding[]> {
  const settings = readSettings(env)
  const isolation = await examineLadder('env' in settings ? settings.env : undefined)
  return [
    examineNode(process.versions.node),
    'env' in settings
      ? { about: 'settings', state: 'ok', detail: 'the AGENTWEAVER_* variables of this shell are understood' }
      : settings.finding,
    ...isolation,
    ...(await examineStore(config)),
    await examineService(config),
    examineModel(env),
  ]
}

export function examineNode(version: string): Finding {
  const isPinned = Number(version.split('.')[0]) >= PINNED_MAJOR
  if (isPinned) return { about: 'node', state: 'ok', detail: version }
  const detail = `${version}; the sources run unbuilt from Node ${PINNED_MAJOR} on`
  return { about: 'node', state: 'fault', detail, remedy: 'npm ci, then npx agentweaver' }
}

/** The settings of a service that would be started from this shell. */
function readSettings(env: EnvSource): { env: ApiEnv } | { finding: Finding } {
  try {
    return {
      env: parseEnv(ApiEnv, env, { prefix: API_ENV_PREFIX, also: OUTSIDE_PREFIX, except: CLIENT_ENV_KEYS }),
    }
  } catch (error) {
    if (!(error instanceof SandboxError)) throw error
    const finding = { about: 'settings', state: 'fault', detail: error.message } as const
    return { finding: { ...finding, remedy: 'agentweaver config lists the keys' } }
  }
}

async function examineLadder(env: ApiEnv | undefined): Promise<Finding[]> {
  const only =
    env === undefined || env.AGENTWEAVER_ISOLATION === 'auto' ? undefined : env.AGENTWEAVER_ISOLATION
  const rungs = await explainLadder({
    ...(only === undefined ? {} : { only }),
    allowDirect: env?.AGENTWEAVER_DIRECT ?? false,
    toolRoots: env?.AGENTWEAVER_TOOL_ROOTS ?? [],
  })
  const findings = rungs.map(toFinding)
  if (rungs.some(({ isChosen }) => isChosen)) return findings
  const detail = 'nothing isolates commands here; the agents get no shell'
  return [...findings, { about: 'isolation', state: 'fault', detail }]
}

function toFinding({ name, isChosen, detection }: Rung): Finding {
  const about = 'isolation'
  if (!detection.ok) {
    const detail = `${name}: ${detection.reason}`
    return {
      about,
      state: name === 'direct' ? 'off' : 'missing',
      detail,
      ...(detection.remedy === undefined ? {} : { remedy: detection.remedy }),
    }
  }
  const chosen = isChosen ? `${name} (used): ` : `${name}: `
  const warnings = detection.warnings.map(({ message }) => `\nbut: ${message}`).join('')
  return { about, state: 'ok', detail: chosen + detection.isolation.reason + warnings }
}

async function examineStore({ stateDir }: ClientConfig): Promise<Finding[]> {
  const about = 'store'
  if (stateDir === undefined)
    return [{ about, state: 'missing', detail: 'no .agentweaver folder yet; "npm start" makes it' }]
  const folder = stateDir.value
  const isOpen = async (path: string) => ((await stat(path)).mode & SHARED_BITS) !== 0
  try {
    const open = await Promise.all([isOpen(folder), isOpen(join(folder, API_KEY_FILE))])
    if (!open.includes(true))
      return [{ about, state: 'ok', detail: `${folder}, readable by its owner alone` }]
    const remedy = `chmod -R go= ${folder}`
    return [{ about, state: 'fault', detail: `${folder} can be read by others; it holds keys`, remedy }]
  } catch (error) {
    const detail = errnoOf(error) === 'ENOENT' ? `${folder} has no API key yet` : messageOf(error)
    return [{ about, state: 'missing', detail }]
  }
}

async function examineService({ url, apiKey }: ClientConfig): Promise<Finding> {
  const about = 'service'
  if (!(await answers(url.value)))
    return {
      about,
      state: 'missing',
      detail: `nothing answers at ${url.value} (${url.from})`,
      remedy: 'npm start',
    }
  if (!apiKey.value)
    return {
      about,
      state: 'missing',
      detail: `${url.value} answers, but there is no API key`,
      remedy: '--api-key',
    }
  try {
    const { ready, checks } = await createClient({ url: url.value, apiKey: apiKey.value }).ready()
    const bad = checks.filter(({ ok }) => !ok).map(({ name, detail }) => `\n${name}: ${detail}`)
    if (ready) return { about, state: 'ok', detail: `${url.value} is ready` }
    return { about, state: 'fault', detail: `${url.value} is not ready${bad.join('')}` }
  } catch (error) {
    return { about, state: 'fault', detail: `${url.value}: ${messageOf(error)}` }
  }
}

function examineModel(env: EnvSource): Finding {
  const about = 'model'
  const found = [
    env['OPENAI_BASE_URL'] && `OPENAI_BASE_URL for --agent openai`,
    env['COPILOT_GITHUB_TOKEN'] && 'COPILOT_GITHUB_TOKEN for --agent copilot',
  ].filter(Boolean)
  if (found.length > 0) return { about, state: 'ok', detail: found.join(', ') }
  const detail = 'none is configured in this shell; only scripted agents can run in a service started from it'
  return {
    about,
    state: 'missing',
    detail,
    remedy: 'set OPENAI_BASE_URL and OPENAI_API_KEY, or COPILOT_GITHUB_TOKEN',
  }
}
