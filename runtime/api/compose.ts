import { readFile, realpath } from 'node:fs/promises'
import { join } from 'node:path'
import { SandboxSettings, type SandboxSettingsPatch } from '../../contracts/policy.ts'
import { policyVersion } from '../../policies/agent/load.ts'
import { parseRepositorySettings } from '../../policies/agent/settings.ts'
import type { ModelSettings } from '../agents/kind.ts'
import { resolveHostRoots } from '../executors/rootfs/host-roots.ts'
import type { Selection } from '../executors/select.ts'
import { createGitSandbox } from '../git/git-sandbox.ts'
import { createGovernance } from '../governance/governance.ts'
import { loadShellGrammar } from '../governance/shell/grammar.ts'
import { createTouchTracker } from '../governance/touched.ts'
import { messageOf, SandboxError } from '../kit/errors.ts'
import type { Log } from '../kit/log.ts'
import { present } from '../kit/present.ts'
import type { OwnerRedactors } from '../redaction/owner-redactors.ts'
import { selectIsolation } from '../sandboxes/local/isolation.ts'
import { WORKSPACES_FOLDER } from '../state-folder/places.ts'
import type { Store } from '../store/store.ts'
import { assets } from './assets.ts'
import { type ComposedEgress, composeEgress } from './compose-egress.ts'
import { composeProvider } from './compose-provider.ts'
import { composeUserCredentials, redactionOfRuns } from './compose-user-credentials.ts'
import type { ApiConfig } from './config.ts'
import { loadCredentials, NO_CREDENTIALS } from './credentials/credentials.ts'
import type { UserCredentialService } from './credentials/user-credential-service.ts'
import type { DeploymentKeys } from './keys/deployment-keys.ts'
import { type LoadedKeys, loadKeys } from './keys/load-keys.ts'
import { userSecretName } from './keys/user-secret-name.ts'
import type { ProcessMetrics } from './metrics/process-metrics.ts'
import { nodeFolder } from './node-folder.ts'
import { privateFoldersOf, refuseToShow, temporaryFolder } from './private-folders.ts'
import { createRunService } from './runs/create-run-service.ts'
import type { ControlGovernance } from './runs/deps.ts'
import { Restrictions } from './runs/restrictions/restrictions.ts'
import { createRunFolders } from './runs/results/run-folders.ts'
import type { RunService } from './runs/service.ts'

type Around = {
  readonly store: Store
  /** Learns the values of credentials. The redactor of the log is one of these. */
  readonly redactors: OwnerRedactors
  readonly log: Log
  /** @default nothing is measured */
  readonly metrics?: ProcessMetrics
  /**
   * Program of the AgentHosts on this machine. In pods it is part of the image.
   * @default the sources of this tree
   */
  readonly hostEntry?: string
}

/** Loads the configured keys. `apiKey` is the first operator's key. */
export const composeKeys = ({ keys, sandboxes, ...config }: ApiConfig): Promise<LoadedKeys> =>
  loadKeys(keys, { ...config, slice: sandboxes.kind === 'kubernetes' ? sandboxes.slice : { kind: 'base' } })

export type ComposedService = {
  readonly service: RunService
  readonly userCredentials: UserCredentialService
  readonly serveEgressControl: ComposedEgress['serveControl']
}

/** Creates the run service with the configured provider. */
export async function composeRunService(
  config: ApiConfig,
  { store, redactors, log, hostEntry, metrics }: Around,
  keys: DeploymentKeys,
): Promise<ComposedService> {
  const toolRoots = await toolRootsOf(config, log)
  const ceiling = await readCeiling(config)
  const credentials = await (config.credentialsFile
    ? loadCredentials(config.credentialsFile, {
        place: config.sandboxes.kind === 'local' ? 'laptop' : 'pod',
        upstreamProxy: config.egressUpstreamProxy,
        log,
      })
    : NO_CREDENTIALS)
  const forbidden = await privateFoldersOf(config, credentials.files)
  if (config.sandboxes.kind === 'local') await refuseToShow(shownBy({ toolRoots, ceiling }), forbidden)
  const select = isolationOf(config, toolRoots)
  for (const value of credentials.secrets) redactors.learnOfDeployment(value)
  const redaction = redactionOfRuns(redactors)
  const users = await composeUserCredentials(config, { store, redactors, keys, log })
  const bare = composeProvider(config, {
    jwksFile: keys.jwksFile,
    selectIsolation: select,
    toolRoots,
    hostRoots: await resolveHostRoots(ceiling.allowed_repository_roots),
    entry: hostEntry,
    log,
  })
  const restrictions = new Restrictions({ store, log })
  const { text: redact } = redactors
  const { credentials: userCredentials } = users
  const hosts = ceiling.egress_hosts
  const around = { store, restrictions, keys, credentials, userCredentials, hosts, redact, log }
  const egress = await composeEgress(config, bare, around)
  const { provider, networks, onModelBudgetSpent, modelProxy } = egress
  const service = createRunService({
    store,
    provider,
    keys,
    governance: await composeGovernance(log),
    models: { ...modelSettings(config, keys, egress), ...users.modelsOf(config, credentials.has) },
    ...(modelProxy && { modelProxy }),
    ...(onModelBudgetSpent && { onModelBudgetSpent }),
    limits: config.limits,
    isTemporary: config.hasLifeline,
    workspaces: await workspacesOf(config, forbidden),
    ceiling,
    restrictions,
    eraseSecrets: users.eraserFor(egress, config),
    ...(networks && { networks }),
    ...redaction,
    ...(provider.name === 'local' && {
      folders: createRunFolders({
        ...{ store, redact: redaction.redactResult, log },
        directory: join(config.stateDir, WORKSPACES_FOLDER),
        user: config.gitUser,
        gitSandbox: gitSandbox(select, { toolRoots, log }),
      }),
    }),
    clock: () => new Date(),
    log,
    ...present({ metrics }),
  })
  return {
    service: { ...service, close: () => users.stop().then(service.close) },
    userCredentials: users.serviceFor(egress, config),
    serveEgressControl: egress.serveControl,
  }
}

const isolationOf = ({ isDirectAllowed: allowDirect, isolation }: ApiConfig, toolRoots: string[]) =>
  once(() => selectIsolation({ allowDirect, toolRoots, ...(isolation !== 'auto' && { only: isolation }) }))

const workspacesOf = async ({ workspaceRoots }: ApiConfig, forbidden: readonly string[]) => ({
  roots: await Promise.all(workspaceRoots.map(realRoot)),
  forbidden,
  temporary: await temporaryFolder(),
})

/** What the operator has configured for models, and how agents reach them. */
function modelSettings(
  { models, hasUserVault }: ApiConfig,
  keys: DeploymentKeys,
  { modelProxy, agentRoot }: Pick<ComposedEgress, 'modelProxy' | 'agentRoot'>,
): ModelSettings {
  return {
    ...models,
    needsProxyToken: modelProxy?.requireRunning !== undefined,
    ...(agentRoot !== undefined && { proxyRoot: agentRoot }),
    ...(hasUserVault && { secretNameOf: (owner) => userSecretName(keys.derive('name'), owner) }),
  }
}

function once<T>(make: () => Promise<T>): () => Promise<T> {
  let made: Promise<T> | undefined
  return () => {
    made ??= make()
    return made
  }
}

/** Commands may use the service's Node as a toolchain, if its folder contains nothing else. */
async function toolRootsOf({ toolRoots }: ApiConfig, log: Log): Promise<string[]> {
  const executable = await realpath(process.execPath)
  if (executable.startsWith('/usr/')) return [...toolRoots]
  const own = await nodeFolder(executable)
  if (own !== undefined) return [...toolRoots, own]
  log.warn('commands do not see the Node of the service, because its folder also contains other files', {
    executable,
  })
  return [...toolRoots]
}

type Showing = { readonly toolRoots: readonly string[]; readonly ceiling: SandboxSettings }

const shownBy = ({ toolRoots, ceiling }: Showing) => [
  ...toolRoots.map((path) => ({ path, by: 'AGENTWEAVER_TOOL_ROOTS, or the folder of the Node in use' })),
  ...ceiling.allowed_repository_roots.map((path) => ({
    path,
    by: 'allowed_repository_roots of AGENTWEAVER_CEILING_FILE',
  })),
]

const realRoot = (root: string): Promise<string> =>
  realpath(root).catch((cause: unknown) => {
    throw new SandboxError(
      'invalid_config',
      `The workspace root ${root} cannot be read: ${messageOf(cause)}`,
      { cause },
    )
  })

/** The limits that no caller can widen: the defaults plus the operator's file. `direct` has a separate setting. */
async function readCeiling({ ceilingFile, isDirectAllowed }: ApiConfig): Promise<SandboxSettings> {
  const patch = ceilingFile === undefined ? {} : await readCeilingFile(ceilingFile)
  return SandboxSettings.parse({ ...patch, direct: isDirectAllowed })
}

async function readCeilingFile(file: string): Promise<SandboxSettingsPatch> {
  const text = await readFile(file, 'utf8').catch((cause: unknown) => {
    throw new SandboxError('invalid_config', `AGENTWEAVER_CEILING_FILE: ${messageOf(cause)}`, { cause })
  })
  const parsed = parseRepositorySettings(text)
  if (parsed.ok) return parsed.patch
  throw new SandboxError(
    'invalid_config',
    `AGENTWEAVER_CEILING_FILE ${file}, line ${parsed.line}: ${parsed.reason}`,
  )
}

async function composeGovernance(log: Log): Promise<ControlGovernance> {
  const policy = assets.agentPolicy()
  const shell = await loadShellGrammar(await assets.grammarModules())
  return {
    version: (settings) => policyVersion(policy, settings),
    forRun: (settings, before) => {
      const governance = createGovernance({ policy, settings, shell, log })
      const tracker = createTouchTracker(policy, before)
      return {
        get touched() {
          return tracker.touched
        },
        decide: (call, { isRealIsolation, shell: runs }, phase = 'work') =>
          governance.decide(call, { isRealIsolation, shell: runs, phase, touched: tracker.touched }),
        observe: (call, content) => tracker.observe(call, content),
      }
    },
  }
}

/** Runs git on files that agents wrote, in the same isolation as their commands. */
const gitSandbox =
  (select: () => Promise<Selection>, options: { toolRoots: string[]; log: Log }) => async () => {
    const { detection } = await select()
    return detection.isolation.isRealIsolation ? createGitSandbox({ select, ...options }) : undefined
  }
