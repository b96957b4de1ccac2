import { readFileSync } from 'node:fs'
import { stripTypeScriptTypes } from 'node:module'
import { join } from 'node:path'
import type { Cell } from './cell.ts'

/** Ports of the listeners. */
export interface Listening {
  readonly tcp?: readonly number[]
  readonly udp?: readonly number[]
  /** Required for UDP if the network has more than one address. @default the address that the system selects */
  readonly addresses?: readonly string[]
  /** Cells that the program tries from its start on. It logs the results. */
  readonly early?: readonly Cell[]
}

const SOURCE = stripTypeScriptTypes(readFileSync(join(import.meta.dirname, 'probe-program.ts'), 'utf8'))

/** The arguments of `node` that run the program in a place without this source tree, such as a pod. */
export function listenArguments(listening: Listening): string[] {
  const { tcp = [], udp = [], addresses = ['0.0.0.0'], early = [] } = listening
  return [...program(), 'listen', JSON.stringify({ tcp, udp, addresses, early })]
}

export function probeArguments(): string[] {
  return [...program(), 'probe']
}

function program(): string[] {
  return ['--input-type=module', '--eval', SOURCE, '--']
}
