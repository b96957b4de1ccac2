import { readFileSync } from 'node:fs'
import { createRequire } from 'node:module'
import { AZURE } from './addresses.ts'

const sdk = createRequire(import.meta.url)

export interface SdkShape {
  readonly inputs: ReadonlySet<string>
  /** Every property that a program can read of the resource. */
  readonly outputs: ReadonlySet<string>
  readonly apiVersion: string
}

const ASSIGNED = /resourceInputs\["(\w+)"\] = (undefined)?/g
const shapes = new Map<string, SdkShape | undefined>()

function readShape(type: string): SdkShape | undefined {
  const [module = '', name = ''] = type.slice(AZURE.length).split(':')
  const file = `@pulumi/azure-native/${module}/${name.charAt(0).toLowerCase()}${name.slice(1)}.js`
  let source: string
  try {
    source = readFileSync(sdk.resolve(file), 'utf8')
  } catch (error) {
    if (['MODULE_NOT_FOUND', 'ENOENT'].includes((error as NodeJS.ErrnoException).code ?? '')) return undefined
    throw error
  }
  const [made = '', read = ''] = source.slice(source.indexOf('let resourceInputs')).split(/\n {8}else \{/)
  const inputs = [...made.matchAll(ASSIGNED)].flatMap(([, key = '', out]) => (out === undefined ? [key] : []))
  const outputs = [...read.matchAll(ASSIGNED)].map(([, key = '']) => key)
  const apiVersion = /REST API version ([0-9][0-9a-z-]*)/.exec(source)?.[1] ?? ''
  return { inputs: new Set(inputs), outputs: new Set(outputs), apiVersion }
}

/**
 * Inputs and outputs of a type in the pinned SDK, read from the class that the program uses. Its constructor lists
 * every input and, in the branch that reads an existing resource, every output.
 */
export function sdkShape(type: string): SdkShape | undefined {
  if (!shapes.has(type)) shapes.set(type, readShape(type))
  return shapes.get(type)
}
