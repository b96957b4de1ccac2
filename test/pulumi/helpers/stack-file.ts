import { existsSync, readFileSync } from 'node:fs'
import { homedir } from 'node:os'
import { join, resolve } from 'node:path'
import { parse } from 'yaml'
import { CONTROLLER_VERSION } from '../../../infra/plans/controller-release.ts'

export const ROOT = resolve(import.meta.dirname, '../../..')
export const PROGRAM = join(ROOT, 'infra')

/** Where the Go tool keeps the module of the controller, which the test clusters are built from. */
function releaseFolder(): string | undefined {
  const cache = process.env['GOMODCACHE'] ?? join(process.env['GOPATH'] ?? join(homedir(), 'go'), 'pkg/mod')
  const folder = join(cache, `sigs.k8s.io/agent-sandbox@${CONTROLLER_VERSION}/k8s`)
  return existsSync(folder) ? folder : undefined
}

export type StackConfig = Record<string, unknown>
const EXTENSION = {
  'agentweaver:controller': {
    install: 'aksExtension',
    extensionType: 'Microsoft.AgentSandbox',
    version: '1.0.0',
  },
  'agentweaver:previewFeatures': true,
}
/** What that way makes beside what the committed plans have. */
export const EXTENSION_TYPE = 'azure-native:kubernetesconfiguration:Extension'

/**
 * The committed configuration of a stack for a run without a network. Where the release of the controller is not on
 * this machine, its other way of installation stands in: then no object of Kubernetes is made.
 */
export function offlineConfig(stack: string): { config: StackConfig; hasRelease: boolean } {
  const { config } = parse(readFileSync(join(ROOT, `Pulumi.${stack}.yaml`), 'utf8')) as {
    config: StackConfig
  }
  const controller = config['agentweaver:controller'] as object | undefined
  const folder = releaseFolder()
  if (controller === undefined) return { config, hasRelease: folder !== undefined }
  if (folder === undefined) return { config: { ...config, ...EXTENSION }, hasRelease: false }
  return { config: { ...config, 'agentweaver:controller': { ...controller, folder } }, hasRelease: true }
}

/** Values as the engine hands them to a program: text, and everything else as JSON. */
export const asTexts = (config: StackConfig): Record<string, string> =>
  Object.fromEntries(
    Object.entries(config).map(([key, value]) => [
      key,
      typeof value === 'string' ? value : JSON.stringify(value),
    ]),
  )
