import { randomUUID } from 'node:crypto'
import { mkdirSync, renameSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { EGRESS_TRUST_FILE, type EgressEnvironment } from '../../../contracts/egress.ts'
import type { EgressAccess } from '../../../contracts/egress-control.ts'
import { TRUST_VARIABLES } from '../../../policies/agent/egress/trust-table.ts'
import { networkEnvironment } from '../../executors/rootfs/egress-mounts.ts'
import { javaTrustStore } from '../../executors/rootfs/java-trust-store.ts'
import type { CommandRelay } from '../serve-context.ts'
import type { EgressRelay } from './egress-relay.ts'

const FOLDER = '.agentweaver'
const JAVA_FILE = 'java-trust-store.jks'

type Environment = Readonly<Record<string, string>>
type Trust = NonNullable<Parameters<typeof networkEnvironment>[1]>

/** The network of a pod's commands: the relay, and the certificates that they trust. */
export class PodNetwork implements CommandRelay {
  readonly #relay: EgressRelay
  readonly #folder: string
  #bundle: string | undefined
  #trust: Trust | undefined
  #ofRun: EgressEnvironment | undefined

  constructor(relay: EgressRelay, home: string) {
    this.#relay = relay
    this.#folder = join(home, FOLDER)
  }

  use(access: EgressAccess): void {
    const { caBundle, environment } = access
    this.#ofRun = environment
    if (caBundle !== undefined && caBundle !== this.#bundle) this.#trustBundle(caBundle)
    this.#relay.use(access)
  }

  onRefusal(listener: (sentence: string) => void): () => void {
    return this.#relay.onRefusal(listener)
  }

  /** The variables of a command with network access. */
  environment(own: Environment): Environment {
    return networkEnvironment(own, this.#trust, this.#ofRun)
  }

  /** Commands can change these files, as they can change their own variables. Nothing else reads them. */
  #trustBundle(bundle: string): void {
    const file = join(this.#folder, EGRESS_TRUST_FILE)
    const javaFile = join(this.#folder, JAVA_FILE)
    mkdirSync(this.#folder, { recursive: true })
    replaceFile(file, bundle)
    replaceFile(javaFile, javaTrustStore(bundle))
    this.#bundle = bundle
    const variables = Object.fromEntries(TRUST_VARIABLES.map(({ name }) => [name, file]))
    this.#trust = { variables, javaTrustStore: javaFile }
  }
}

/**
 * In one step: a command may read the file at any time. Through a name that commands cannot foresee: they could put a pipe
 * there, on which this process would wait.
 */
function replaceFile(file: string, content: string | Buffer): void {
  const temporary = `${file}.${randomUUID()}`
  writeFileSync(temporary, content, { flag: 'wx' })
  renameSync(temporary, file)
}
