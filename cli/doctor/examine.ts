import { API_ENV_PREFIX, ApiEnv, CLIENT_ENV_KEYS } from '../../contracts/api-env.ts'
import { missingInPod } from '../../contracts/api-pod-env.ts'
import { type Client, createClient } from '../../runtime/client/client.ts'
import { explainLadder, type Rung } from '../../runtime/executors/select.ts'
import { messageOf, SandboxError } from '../../runtime/kit/errors.ts'
import { type EnvSource, parseEnv } from '../../runtime/kit/parse-env.ts'
import { hasState } from '../../runtime/state-folder/earlier-folder.ts'
import { CliError } from '../cli-error.ts'
import type { ClientConfig, NamedService } from '../service/client-config.ts'
import { findOwnService } from '../service/own-service.ts'
import { requireConfidential } from '../service/service-url.ts'
import { examineGit } from './examine-git.ts'
import type { Finding } from './finding.ts'

const OUTSIDE_PREFIX = ['DATABASE_URL', 'OPENAI_BASE_URL', 'OPENAI_API_KEY', 'COPILOT_GITHUB_TOKEN']

/** Checks everything that a run on this machine needs. */
export async function examine(config: ClientConfig, env: EnvSource): Promise<Finding[]> {
  const settings = readSettings(env)
  const isolation = await examineLadder('env' in settings ? settings.env : undefined)
  return [
    { about: 'node', state: 'ok', detail: process.versions.node },
    'env' in settings
      ? { about: 'settings', state: 'ok', detail: 'the AGENTWEAVER_* variables of this shell are understood' }
      : settings.finding,
    ...isolation,
    await examineGit({ env }),
    ...examineStore(config),
    await examineService(config, env),
    examineModel(env),
  ]
}

/** Settings of a service started from this shell. */
function readSettings(env: EnvSource): { env: ApiEnv } | { finding: Finding } {
  const missing = missingInPod(env).map(({ key, message }) => `${key}: ${message}`)
  if (missing.length > 0)
    return { finding: { about: 'settings', state: 'fault', detail: missing.join('\n') } }
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

/** The remedy for a user at a shell. The library's text refers to the policy instead. */
const DIRECT_REMEDY =
  'start the service with AGENTWEAVER_DIRECT=true if you accept that commands have all permissions of this user'

function toFinding({ name, isChosen, detection }: Rung): Finding {
  const about = 'isolation'
  if (!detection.ok) {
    const detail = `${name}: ${detection.reason}`
    if (name === 'direct') return { about, state: 'off', detail, remedy: DIRECT_REMEDY }
    const remedy = detection.remedy === undefined ? {} : { remedy: detection.remedy }
    return { about, state: 'missing', detail, ...remedy }
  }
  const chosen = isChosen ? `${name} (used): ` : `${name}: `
  const warnings = detection.warnings.map(({ message }) => `\nbut: ${message}`).join('')
  return { about, state: 'ok', detail: chosen + detection.isolation.reason + warnings }
}

function examineStore({ stateDir, earlier }: ClientConfig): Finding[] {
  const about = 'store'
  const moved = earlier.found.map((path): Finding => {
    const detail = `${path} has the state of an earlier version, which is not used`
    return { about, state: 'off', detail, remedy: `agentweaver move-state ${path}` }
  })
  const passedOver = earlier.ignored.map(({ path, reason }): Finding => {
    const remedy = `if it is yours: agentweaver move-state ${path}; remove a folder that came with a repository or an archive`
    return { about, state: 'off', detail: `${path} is not used: ${reason}`, remedy }
  })
  const own: Finding = hasState(stateDir.value)
    ? { about, state: 'ok', detail: stateDir.value }
    : {
        about,
        state: 'missing',
        detail: `none in ${stateDir.value} yet; "agentweaver serve" creates it`,
      }
  return [own, ...moved, ...passedOver]
}

type Reached = { readonly place: string; readonly client: Client }

async function examineService(config: ClientConfig, env: EnvSource): Promise<Finding> {
  const about = 'service'
  const reached = await reach(config, env)
  if ('about' in reached) return reached
  const { place, client } = reached
  try {
    const { ready, checks } = await client.ready()
    const bad = checks.filter(({ ok }) => !ok).map(({ name, detail }) => `\n${name}: ${detail}`)
    if (ready) return { about, state: 'ok', detail: `${place} is ready` }
    return { about, state: 'fault', detail: `${place} is not ready${bad.join('')}` }
  } catch (error) {
    return { about, state: 'fault', detail: `${place}: ${messageOf(error)}` }
  }
}

/** The service that commands would use, or the reason why there is no service. */
async function reach({ named, stateDir, socket }: ClientConfig, env: EnvSource): Promise<Reached | Finding> {
  const about = 'service'
  if (named) return reachByUrl(named, env)
  const own = await findOwnService({ stateDir: stateDir.value, socket })
  if (own.kind === 'absent')
    return {
      about,
      state: 'missing',
      detail: `no service listens at ${socket.path}`,
      remedy: 'agentweaver serve',
    }
  if (own.kind === 'distrusted')
    return { about, state: 'fault', detail: own.why.message, remedy: 'agentweaver serve' }
  const place = `the service at ${socket.path}`
  if (own.apiKey) return { place, client: createClient({ socketPath: own.socketPath, apiKey: own.apiKey }) }
  return { about, state: 'missing', detail: `${place} runs, but its first API key is gone`, remedy: LOGIN }
}

const LOGIN = 'agentweaver login --url URL'

function reachByUrl({ url, apiKey }: NamedService, env: EnvSource): Reached | Finding {
  const about = 'service'
  if (!apiKey.value)
    return { about, state: 'missing', detail: `there is no API key for ${url.value}`, remedy: LOGIN }
  try {
    requireConfidential(url.value, env)
    return { place: url.value, client: createClient({ url: url.value, apiKey: apiKey.value }) }
  } catch (error) {
    if (!(error instanceof CliError)) throw error
    return { about, state: 'fault', detail: error.message }
  }
}

function examineModel(env: EnvSource): Finding {
  const about = 'model'
  const found = [
    env['OPENAI_BASE_URL'] && `OPENAI_BASE_URL for --agent openai`,
    env['COPILOT_GITHUB_TOKEN'] && 'COPILOT_GITHUB_TOKEN for --agent copilot',
  ].filter(Boolean)
  if (found.length > 0) return { about, state: 'ok', detail: found.join(', ') }
  const detail =
    'no model is configured in this shell; a service started from it can run only scripted agents'
  return {
    about,
    state: 'missing',
    detail,
    remedy: 'set OPENAI_BASE_URL and OPENAI_API_KEY, or COPILOT_GITHUB_TOKEN',
  }
}
