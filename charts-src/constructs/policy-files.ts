import { createHash } from 'node:crypto'
import { Construct } from 'constructs'
import { names } from '../../contracts/names.ts'
import type { EgressPolicy } from '../../policies/agent/egress/load.ts'
import { resolveEgress } from '../../policies/agent/egress/resolve.ts'
import { listedValues } from '../environment/placeholder-values.ts'
import type { Environment } from '../environment/schema.ts'
import { KubeConfigMap, type Volume, type VolumeMount } from '../imports/k8s.js'
import { yamlText } from '../tree/yaml-text.ts'

const VOLUME = 'policy'
const FOLDER = '/etc/agentweaver/policy'
const CEILING = 'ceiling.yaml'
const EGRESS = 'egress.yaml'
const CREDENTIALS = 'credentials.yaml'
const ROOTS = 'roots.pem'

/** Paths in the API's container. */
export const CEILING_FILE = `${FOLDER}/${CEILING}`
export const EGRESS_FILE = `${FOLDER}/${EGRESS}`
export const CREDENTIALS_FILE = `${FOLDER}/${CREDENTIALS}`
export const ROOTS_FILE = `${FOLDER}/${ROOTS}`

/** Mount path of the Secret with the values of the credentials. */
export const CREDENTIALS_FOLDER = '/etc/agentweaver/credentials'

export interface PolicyFilesProps {
  readonly environment: Environment
  readonly egress: EgressPolicy
}

/** The operator's ceiling, and the destinations of sandboxes under the environment's own names, as files of the API. */
export class PolicyFiles extends Construct {
  readonly volume: Volume
  readonly mount: VolumeMount = { name: VOLUME, mountPath: FOLDER, readOnly: true }
  /** Changes with the files. The API reads them when it starts, so its pods must be replaced then. */
  readonly digest: string

  constructor(scope: Construct, id: string, { environment, egress }: PolicyFilesProps) {
    super(scope, id)
    const { prefix, namespaces } = names(environment.slice)
    const metadata = { name: `${prefix}-policy`, namespace: namespaces.controlPlane }
    const data = {
      [CEILING]: yamlText(environment.ceiling),
      ...(environment.egress.mode === 'proxy' && { [EGRESS]: egressText(environment, egress) }),
      ...filesOf(environment.egress),
    }
    new KubeConfigMap(this, 'Resource', { metadata, data })
    this.volume = { name: VOLUME, configMap: { name: metadata.name, defaultMode: 0o444 } }
    this.digest = createHash('sha256').update(JSON.stringify(data)).digest('hex').slice(0, 16)
  }
}

const filesOf = ({ credentials, roots }: Environment['egress']): Record<string, string> => ({
  ...(credentials && { [CREDENTIALS]: credentialsText(credentials) }),
  ...(roots && { [ROOTS]: rootsText(roots) }),
})

export const rootsText = (roots: readonly string[]): string =>
  roots.map((certificate) => `${certificate.trim()}\n`).join('')

/** In the syntax of the operator's file. It names files, and contains no value. */
function credentialsText(entries: NonNullable<Environment['egress']['credentials']>): string {
  const credentials = entries.map(({ id, githubApp, ...rest }) => {
    const file = `${CREDENTIALS_FOLDER}/${id}`
    return { id, ...rest, ...(githubApp ? { githubApp: { ...githubApp, keyFile: file } } : { file }) }
  })
  return yamlText({ apiVersion: 'agentweaver.io/v1', kind: 'Credentials', credentials })
}

/** In the syntax of `policies/agent/egress.yaml`. */
function egressText(environment: Environment, egress: EgressPolicy): string {
  const { classes } = resolveEgress(egress, listedValues(environment))
  const { prefix } = names(environment.slice)
  return yamlText({ apiVersion: 'agentweaver.io/v1', kind: 'EgressPolicy', name: prefix, classes })
}
