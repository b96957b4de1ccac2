import { existsSync, readFileSync, realpathSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { EGRESS_TRUST_FILE } from '../../../contracts/egress.ts'
import { TRUST_FILES, TRUST_VARIABLES } from '../../../policies/agent/egress/trust-table.ts'
import { javaTrustStore } from './java-trust-store.ts'
import { bindReadOnly, type Mount } from './mounts.ts'

/** The certificates that the programs of a command trust. */
export interface Trust {
  readonly mounts: readonly Mount[]
  readonly variables: Readonly<Record<string, string>>
  /** Path of the key store for Java, as the sandbox sees it. */
  readonly javaTrustStore: string
}

export interface TrustPlace {
  /** The folder that becomes `/`. */
  readonly root: string
  /** The folder of the proxy's socket on this machine, and as commands see it. */
  readonly folder: string
  readonly shownFolder: string
  /** Where commands see the key store for Java. */
  readonly javaTrustStore: string
}

/**
 * Returns the mounts and variables with which a command trusts the certificates of the egress proxy. Undefined if the proxy terminates no TLS:
 * then programs use the certificates that they have. The service writes the file after the executor was created.
 */
export function trustReader(place: TrustPlace): () => Trust | undefined {
  const bundle = join(place.folder, EGRESS_TRUST_FILE)
  let trust: Trust | undefined
  return () => {
    if (!trust && existsSync(bundle)) trust = prepare(place, bundle)
    return trust
  }
}

function prepare({ root, shownFolder, javaTrustStore: store }: TrustPlace, bundle: string): Trust {
  writeFileSync(join(root, store), javaTrustStore(readFileSync(bundle, 'utf8')))
  const shown = join(shownFolder, EGRESS_TRUST_FILE)
  return {
    mounts: systemFiles().map((file) => bindReadOnly(bundle, file)),
    variables: Object.fromEntries(TRUST_VARIABLES.map(({ name }) => [name, shown])),
    javaTrustStore: store,
  }
}

/** Folders of the machine that commands see, in which its certificates can be. */
const SHOWN = ['/usr/', '/etc/ssl/certs/', '/etc/pki/']

/** The machine's own files with certificates, without links: a mount covers the file itself. */
const systemFiles = (): string[] => [
  ...new Set(
    TRUST_FILES.filter(existsSync)
      .map((file) => realpathSync(file))
      .filter((file) => SHOWN.some((folder) => file.startsWith(folder))),
  ),
]
