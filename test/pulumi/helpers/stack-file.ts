import { existsSync, readFileSync } from 'node:fs'
import { homedir } from 'node:os'
import { join, resolve } from 'node:path'
import { CONTROLLER_VERSION } from '../../../infra/model/controller-release.ts'
import { RELEASE_FOLDER } from '../../../infra/release/read-release.ts'
import { readStackText } from '../../../infra/stack-file.ts'

export const ROOT = resolve(import.meta.dirname, '../../..')

/** Where the files of the controller are on this machine: fetched, or in the Go module of the test clusters. */
export function releaseFolder(): string | undefined {
  const cache = process.env['GOMODCACHE'] ?? join(process.env['GOPATH'] ?? join(homedir(), 'go'), 'pkg/mod')
  const folders = [
    join(ROOT, RELEASE_FOLDER),
    join(cache, `sigs.k8s.io/agent-sandbox@${CONTROLLER_VERSION}/k8s`),
  ]
  return folders.find((folder) => existsSync(folder))
}

export type StackConfig = Readonly<Record<string, unknown>>

export const committedConfig = (stack: string): StackConfig =>
  readStackText(readFileSync(join(ROOT, `Pulumi.${stack}.yaml`), 'utf8')).config

/**
 * Installs the controller as an extension, for a machine without its files. Then the program creates no Kubernetes
 * objects.
 */
export const AS_EXTENSION = {
  'agentweaver:controller': {
    install: 'aksExtension',
    extensionType: 'Microsoft.AgentSandbox',
    version: '1.0.0',
  },
  'agentweaver:previewFeatures': true,
}
